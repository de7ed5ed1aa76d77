/* One stream for all windows of one person in a browser: browsers keep six connections to one host, and a window with a stream of its
   own each would leave none to open the seventh. This file runs as a SharedWorker; where there is none, in the page.
   A window says what it shows, each 10 s again while it looks: {live, topics, regions}, or {gone: true}. It hears
   {event, data} of what concerns it: `hello`, `region`, `change`, `alive`, `bye` of the stream, `down` where there is none,
   and `here` for what it said. A `hello` is `fresh` where the window cannot know what it missed. */
(function () {
  'use strict';
  var SILENT = 40000, GONE = 45000;         // the server says something each 15 s, a window each 10 s
  var MOST_TOPICS = 60, MOST_REGIONS = 96, LONG = 7000;   // what the server and a proxy take in one address
  var windows = new Map();                  // port -> what it shows, when it was heard
  var source = null, up = false, at = '', since = null, given = new Set(), due = new Set(), heard = 0, soon = 0, again = 0, tries = 0;

  function tell(port, event, data) { try { port.postMessage({ event: event, data: data }); } catch (_) { windows.delete(port); } }
  function all(event, data) { windows.forEach(function (_, port) { tell(port, event, data); }); }
  function union(name, most) {
    var found = new Set();
    windows.forEach(function (one) { one[name].forEach(function (word) { if (found.size < most) found.add(word); }); });
    return found;
  }
  function live() { var found = ''; windows.forEach(function (one) { found = one.live; }); return found; }
  function written(text) { return encodeURIComponent(text).replace(/%2F/g, '/').replace(/%3F/g, '?').replace(/%3D/g, '=').replace(/%3A/g, ':').replace(/%2C/g, ','); }

  /* ---- the stream: opened again where the windows show something else, and it goes on where the last one was ---- */
  function close() { if (source) source.close(); source = null; up = false; clearTimeout(again); again = 0; }
  function listen() {
    soon = 0;
    var topics = union('topics', MOST_TOPICS), regions = union('regions', MOST_REGIONS), now = Array.from(topics).join(',');
    close();
    if (!windows.size) { since = null; given.clear(); due.clear(); at = ''; return; }
    at = Array.from(topics).concat(Array.from(regions)).join(' ');
    given.forEach(function (one) { if (!regions.has(one)) given.delete(one); });
    due.forEach(function (one) { if (!regions.has(one)) due.delete(one); });
    var address = live() + '&topics=' + written(now) + (since === null ? '' : '&since=' + since);
    regions.forEach(function (one) {
      var more = (since !== null && given.has(one) && !due.has(one) ? '&k=' : '&r=') + written(one);
      if (address.length + more.length < LONG) address += more;
    });
    heard = Date.now();
    var mine = source = new EventSource(address), first = since === null;
    function on(name, act) { mine.addEventListener(name, function (event) { if (mine !== source) return; heard = Date.now(); up = name !== 'down'; act(JSON.parse(event.data)); }); }
    on('hello', function (data) {
      tries = 0;
      given.forEach(function (one) { if (data.regions.indexOf(one) < 0) given.delete(one); });
      windows.forEach(function (one, port) {
        tell(port, 'hello', { build: data.build, fresh: first || one.fresh, regions: data.regions.filter(function (region) { return one.regions.indexOf(region) >= 0; }) });
        one.fresh = false;
      });
    });
    on('region', function (data) {
      given.add(data.region);
      due.delete(data.region);
      windows.forEach(function (one, port) { if (one.regions.indexOf(data.region) >= 0) tell(port, 'region', data); });
    });
    on('change', function (data) {
      if (typeof data.number === 'number') since = data.number;
      windows.forEach(function (one, port) {
        var names = data.topics.filter(function (name) { return one.topics.indexOf(name) >= 0; });
        if (names.length) tell(port, 'change', { topics: names });
      });
    });
    on('alive', function (data) { if (typeof data.number === 'number') since = data.number; all('alive', {}); });
    on('down', function () { all('down', {}); });   // its numbers stand still
    on('bye', function (data) { close(); all('bye', data); windows.clear(); listen(); });
    mine.onerror = function () {
      if (mine !== source) return;
      var refused = mine.readyState === EventSource.CLOSED;   // for good, or by a site that is just coming back
      tries = refused ? tries + 1 : 0;
      all('down', {});
      close();                              // the next one goes on from the number that is known now
      again = setTimeout(listen, Math.min(15000, 1500 * Math.pow(2, tries)) * (1 + Math.random() / 3));
    };
  }
  function reconsider(wait) {
    if (soon) return;
    soon = setTimeout(function () {
      var now = Array.from(union('topics', MOST_TOPICS)).concat(Array.from(union('regions', MOST_REGIONS))).join(' ');
      if (now !== at || due.size) listen(); else soon = 0;
    }, wait);
  }

  /* ---- the windows ---- */
  function adopt(port) {
    port.onmessage = function (event) {
      var told = event.data, old = windows.get(port);
      if (told.gone) { if (windows.delete(port)) reconsider(300); return; }
      windows.set(port, { live: told.live, topics: told.topics, regions: told.regions, heard: Date.now(), fresh: !old || old.fresh });
      told.regions.forEach(function (one) { if (!old || old.regions.indexOf(one) < 0) due.add(one); });
      var same = old && old.topics.join() === told.topics.join() && old.regions.join() === told.regions.join();
      tell(port, again ? 'down' : 'here', { up: up });
      if (!same) reconsider(again ? 1000 : source ? 100 : 0);
    };
    if (port.start) port.start();
  }
  setInterval(function () {
    var now = Date.now(), before = windows.size;
    windows.forEach(function (one, port) { if (now - one.heard > GONE) windows.delete(port); });
    if (windows.size < before) reconsider(0);
    if (source && now - heard > SILENT) { all('down', {}); listen(); }
  }, 5000);

  if (typeof SharedWorkerGlobalScope !== 'undefined' && self instanceof SharedWorkerGlobalScope) self.onconnect = function (event) { adopt(event.ports[0]); };
  else { window.rsStream = adopt; window.addEventListener('pagehide', function () { windows.clear(); listen(); }); }
})();
