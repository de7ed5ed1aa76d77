/* Live pages: the stream hands over the regions that this page shows when they change, and they are morphed in. What the
   stream does not hand over, or all of it while there is no stream, is fetched. body[data-live] is the address of the
   stream, body[data-topics] what this page shows. Events on body: `rs:<topic>` for each topic that changed, and
   `rs-refresh` for a region that shows several of them; `rs-regions` is for the page to say that it shows others now. */
(function () {
  'use strict';
  var body = document.body, sign = document.querySelector('.live');
  if (!body.dataset.live || !window.EventSource || !window.MessageChannel || !window.htmx || !sign) return;
  var topics = body.dataset.topics.split(/\s+/).filter(Boolean);
  var word = sign.querySelector('[data-live-word]'), clock = sign.querySelector('[data-live-clock]');
  var POLL = 5000, SILENT = 25000;          // whoever holds the stream answers each 10 s
  var lastData = new Date(), lastHeard = Date.now(), lost = false, ended = false, poll = 0, aside = 0, slow = 0;
  var two = function (n) { return (n < 10 ? '0' : '') + n; };
  var there = body.dataset.zone === 'chosen' ? { timeZone: body.dataset.zoneName, hourCycle: 'h23' } : null;
  var hms = function (d) { return there ? d.toLocaleTimeString('en-GB', there) : two(d.getHours()) + ':' + two(d.getMinutes()) + ':' + two(d.getSeconds()); };

  /* ---- morphing keeps what the viewer did: open details, typed text, selection ---- */
  if (window.Idiomorph) {
    /* a row is itself wherever it stands: who has the focus on one must not find another in its place */
    var morph = Idiomorph.morph;
    Idiomorph.morph = function (old, fresh, options) {
      [old].concat(fresh instanceof Node ? [fresh] : Array.prototype.slice.call(fresh || [])).forEach(named);
      return morph.call(Idiomorph, old, fresh, options);
    };
    Idiomorph.defaults.ignoreActiveValue = true;
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = function (name, node) {
      if (name === 'open') return node.tagName !== 'DETAILS' && node.tagName !== 'DIALOG';
      if (name === 'aria-describedby') return node.getAttribute(name) !== 'tip';  // it is being told: tips.js takes it away
      return !(name === 'value' || name === 'checked' || name === 'selected') || !theirs(node);
    };
    Idiomorph.defaults.callbacks.beforeNodeMorphed = function (old, fresh) {
      if (old.nodeType !== 1) return true;
      if (old.hasAttribute('data-keep')) return false;
      if (old.hasAttribute('data-row') && said(old) !== said(fresh)) {
        fresh.classList.add('fresh');       // tinted once; app.css leaves it out under reduced motion
        setTimeout(function () { old.classList.remove('fresh'); }, 1300);
      }
      return true;
    };
  }
  function named(region) {
    if (region.querySelectorAll) region.querySelectorAll('[data-row]:not([id])').forEach(function (row) { row.id = 'row-' + row.dataset.row; });
  }
  function theirs(field) {                  // typed, ticked or chosen and not sent yet, also where the focus has gone on
    if (field.tagName === 'OPTION') field = field.closest('select') || field;
    if (field.tagName === 'SELECT') {
      var options = Array.prototype.slice.call(field.options), set = options.some(function (one) { return one.defaultSelected; });
      return options.some(function (one, n) { return one.selected !== (set || field.multiple ? one.defaultSelected : n === 0); });
    }
    if (field.type === 'checkbox' || field.type === 'radio') return field.checked !== field.defaultChecked;
    return field.defaultValue !== undefined && field.value !== field.defaultValue;
  }
  function said(element) {                  // what a row says, without clocks and ages
    var copy = element.cloneNode(true);
    copy.querySelectorAll('time').forEach(function (time) { time.remove(); });
    return copy.textContent.replace(/\s+/g, ' ').trim();
  }

  /* ---- regions that the stream hands over; charts take theirs as data ---- */
  var pushed = [], asked = '';
  function shown() {
    var list = [];
    document.querySelectorAll('[hx-get][hx-trigger*="rs:"], [hx-get][hx-trigger*="rs-refresh"]').forEach(function (one) { list.push(one.getAttribute('hx-get')); });
    document.querySelectorAll('[data-chart][data-topic], [data-region]').forEach(function (one) { list.push(data(one)); });
    return list.filter(function (one, n) { return one && list.indexOf(one) === n; }).slice(0, 16);
  }
  function data(one) { return one.dataset.region || one.dataset.tail || one.dataset.src; }
  window.rsPushed = function (address) { return !lost && joined && pushed.indexOf(address) >= 0; };
  function put(told) {
    up();
    if (pushed.indexOf(told.region) < 0) pushed.push(told.region);
    if (told.type.indexOf('json') >= 0) {
      document.querySelectorAll('[data-chart][data-topic], [data-region]').forEach(function (one) {
        if (data(one) === told.region) one.dispatchEvent(new CustomEvent('rs-data', { detail: { text: told.body, etag: told.etag } }));
      });
      return;
    }
    document.querySelectorAll('[hx-get]').forEach(function (one) {
      if (one.getAttribute('hx-get') !== told.region || one.dataset.etag === told.etag) return;
      var id = one.id;
      htmx.swap(one, told.body, { swapStyle: 'morph', swapDelay: 0, settleDelay: 0 }, { contextElement: one });
      var now = id ? document.getElementById(id) : one;
      if (now) now.dataset.etag = told.etag;
    });
  }
  document.addEventListener('htmx:beforeRequest', function (event) {
    var by = event.detail.requestConfig && event.detail.requestConfig.triggeringEvent;
    if (by && /^rs[:-]/.test(by.type) && window.rsPushed(event.detail.elt.getAttribute('hx-get'))) event.preventDefault();
  });
  /* what a page shows may become another: a zoom, a tab, a region that came with a region */
  var regions = 0;
  function changed() {
    clearTimeout(regions);
    regions = setTimeout(function () { if (shown().join(' ') !== asked) listen(); }, 250);
  }
  body.addEventListener('rs-regions', changed);
  document.addEventListener('htmx:afterSettle', changed);

  /* ---- what changed is said to those who do not see it, in the page's own words ---- */
  var announce = document.getElementById('announce'), heard = {}, news = [], saying = 0;
  function tell() {
    document.querySelectorAll('[data-announce]').forEach(function (one) {
      var name = one.dataset.announce, words = one.textContent.replace(/\s+/g, ' ').trim();
      if (heard[name] !== undefined && heard[name] !== words) news.push(words);
      heard[name] = words;
    });
    if (!news.length || saying) return;     // what changes together is said together: the next would cut off the last
    saying = setTimeout(function () { saying = 0; if (announce) announce.textContent = news.splice(0).join('. '); }, 500);
  }
  document.addEventListener('htmx:afterSettle', tell);
  tell();

  /* ---- regions: a part that did not change is not sent again ---- */
  document.addEventListener('htmx:configRequest', function (event) {
    var tag = event.detail.elt.dataset.etag;
    if (tag && event.detail.verb === 'get') event.detail.headers['If-None-Match'] = tag;
  });
  document.addEventListener('htmx:afterRequest', function (event) {
    var xhr = event.detail.xhr;
    if (!xhr || !xhr.status) return;
    if (xhr.status < 400) { lastData = new Date(); if (!ended) show(); }
    var build = xhr.getResponseHeader('Relaysite-Build');
    if (build) body.dispatchEvent(new CustomEvent('rs-build', { detail: build }));
    var tag = xhr.status === 200 && xhr.getResponseHeader('ETag'), region = document.getElementById(event.detail.elt.id);
    if (tag && region) region.dataset.etag = tag;
    if (xhr.status === 401 || xhr.status === 403 || (xhr.responseURL && xhr.responseURL.indexOf('/sign-in/') > 0)) stop(sign.dataset.out);
  });
  document.addEventListener('htmx:beforeSwap', function (event) {
    var url = event.detail.xhr && event.detail.xhr.responseURL;
    if (url && url.indexOf('/sign-in/') > 0 && location.pathname.indexOf('/sign-in/') !== 0) event.detail.shouldSwap = false;
  });
  document.addEventListener('htmx:afterSettle', function () {
    var waiting = document.getElementById('waiting');
    if (!waiting) return;
    var n = waiting.dataset.waiting || '0';
    document.querySelectorAll('[data-count]').forEach(function (badge) {
      badge.textContent = n; badge.hidden = n === '0'; badge.setAttribute('aria-label', waiting.textContent.trim());
    });
    document.title = (n === '0' ? '' : '(' + n + ') ') + document.title.replace(/^\(\d+\) /, '');
  });

  function fire(names) {
    setTimeout(function () {                // many viewers do not ask in the same instant
      names.forEach(function (name) { htmx.trigger(body, 'rs:' + name); });
      htmx.trigger(body, 'rs-refresh');
    }, Math.random() * 300);
  }

  /* ---- the sign: live with a clock, or since when the numbers stand still ---- */
  function say(text) { if (word.textContent !== text) word.textContent = text; }
  function show() {
    sign.hidden = false;
    if (lost) { sign.dataset.state = 'lost'; say((poll ? sign.dataset.polling : sign.dataset.lost).replace('%(time)s', hms(lastData))); clock.textContent = ''; }
    else { sign.dataset.state = 'live'; say(sign.dataset.live); clock.textContent = ' · ' + hms(new Date()); }
  }
  function down() {
    if (!lost) { lost = true; show(); }    // "reconnecting" first, "polling" once it is not back after 5 s
    if (!poll) poll = setInterval(function () { show(); if (!document.hidden) fire(topics); }, POLL);
  }
  function up() {
    if (poll) { clearInterval(poll); poll = 0; }
    lost = false;
    lastData = new Date();
    show();
  }
  function stop(text) { ended = true; leave(); clearInterval(poll); clearInterval(tick); clearInterval(slow); slow = 0; clearTimeout(aside); sign.hidden = false; sign.dataset.state = 'lost'; clock.textContent = ''; say(text); }

  /* ---- the stream is one for all windows of one person in this browser (stream.js): they say what they show and hear of
     that. Who signs in after somebody else has another one, so that no window is given what it was not made for ---- */
  var AGAIN = 10000, port = null, answered = false, told = 0, joined = false;
  function connect() {
    var script = document.querySelector('script[data-stream]'), worker = null;
    leave();
    answered = false;
    lastHeard = Date.now();
    try { worker = window.SharedWorker ? new SharedWorker(script.src, { name: 'relaysite-live ' + body.dataset.live }) : null; } catch (_) { worker = null; }
    if (!worker) { alone(); return; }
    var mine = port = worker.port;
    worker.onerror = function () { if (port === mine && !answered) alone(); };
    setTimeout(worker.onerror, 5000);
    attend(mine);
  }
  function alone() {                        // no worker here, or none that answers: a stream of this window's own
    leave();
    var channel = new MessageChannel();
    window.rsStream(channel.port1);
    attend(port = channel.port2);
  }
  function attend(mine) {
    mine.onmessage = function (event) {
      if (port !== mine) return;
      answered = true;
      lastHeard = Date.now();
      hear[event.data.event](event.data.data);
    };
    listen();
  }
  function listen() {
    if (!port) return;
    var list = shown();
    asked = list.join(' ');
    told = Date.now();
    port.postMessage({ live: body.dataset.live, topics: topics, regions: list });
  }
  function leave() { if (port) { port.postMessage({ gone: true }); port.onmessage = null; port.close(); } port = null; joined = false; pushed = []; }
  var hear = {
    hello: function (data) {
      joined = true;
      pushed = pushed.filter(function (one) { return data.regions.indexOf(one) >= 0; });
      up();
      body.dispatchEvent(new CustomEvent('rs-build', { detail: data.build }));
      if (data.fresh) setTimeout(function () { fire(topics); }, 1000);   // what it does not hand over may have changed before
    },
    region: put,
    alive: up,
    change: function (data) { up(); fire(data.topics); },
    bye: function (data) { stop(data.why); },
    down: down,
    here: function (data) { if (data.up && joined && lost) up(); }
  };
  var tick = setInterval(function () {
    var now = Date.now();
    if (port && now - lastHeard > SILENT) { down(); connect(); }   // a machine that slept, a worker that was ended
    else if (port && now - told >= AGAIN) listen();
    if (!lost) show();
  }, 1000);
  /* a hidden page gives its part of the stream back and asks for the count now and then */
  document.addEventListener('visibilitychange', function () {
    clearTimeout(aside);
    if (document.hidden) {
      aside = setTimeout(function () { if (!port) return; leave(); slow = setInterval(function () { fire(['inbox']); }, 30000); }, 20000);
    } else if (slow) { clearInterval(slow); slow = 0; connect(); }
  });
  window.addEventListener('pagehide', leave);
  window.addEventListener('pageshow', function (event) { if (event.persisted && !ended && !slow) connect(); });
  connect();
})();
