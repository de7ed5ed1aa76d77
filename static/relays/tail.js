/* The log of a leg's agent follows while the leg runs: by the page's stream, and by asking where there is none. It stays
   where the reader scrolled to, can be paused, and keeps a bounded number of lines. Without this file its newest lines
   are read and its pages work.
   <div data-tail-log="address of the log" data-region="newest lines as data" data-topic data-end="bytes" data-running> */
(function () {
  'use strict';
  var box = document.querySelector('[data-tail-log]'), body = document.body, MOST = 2000, ASK = 2000, SLOW = 10000;
  if (!box) return;
  var pause = document.querySelector('[data-tail-pause]'), fresh = document.querySelector('[data-tail-new]');
  var end = Number(box.dataset.end) || 0, paused = false, asking = false, unseen = 0, running = box.hasAttribute('data-running'), asked = Date.now();

  function atEnd() { return box.scrollHeight - box.scrollTop - box.clientHeight < 24; }
  function toEnd() { box.scrollTop = box.scrollHeight; unseen = 0; show(); }
  function show() { fresh.hidden = !unseen; fresh.textContent = unseen === 1 ? fresh.dataset.one : unseen + ' ' + fresh.dataset.many; }
  function line(one) {
    var p = document.createElement('p');
    p.dataset.at = one[0];
    if (one[1]) { var clock = document.createElement('span'); clock.className = 'dim'; clock.textContent = one[1]; p.append(clock, ' '); }
    if (one[2]) { var kind = document.createElement('b'); kind.textContent = one[2]; p.append(kind, ' '); }
    p.append(one[3]);                        // text, never markup
    return p;
  }
  function add(told) {
    var follow = atEnd() && !String(window.getSelection()), lines = told.lines.filter(function (one) { return one[0] >= end; });
    running = told.running;
    if (!lines.length) return;
    lines.forEach(function (one) { box.append(line(one)); });
    end = told.end;
    while (box.childElementCount > MOST) {
      var gone = box.firstElementChild, height = gone.offsetHeight;
      gone.remove();
      if (!follow) box.scrollTop -= height;  // what is read stays where it is
    }
    if (follow) toEnd(); else { unseen += lines.length; show(); }
  }
  /* what was handed over begins behind what is shown: the lines between are asked for first */
  function take(text) {
    var told = JSON.parse(text);
    if (paused) { running = told.running; return; }
    if (told.start > end) ask(); else add(told);
  }
  function ask() {
    if (asking || paused || document.hidden) return;
    asking = true;
    asked = Date.now();
    fetch(box.dataset.tailLog + '?format=json&after=' + end, { credentials: 'same-origin', redirect: 'error' }).then(function (response) {
      return response.status === 200 ? response.json() : null;
    }).then(function (told) {
      asking = false;
      if (!told) return;
      add(told);
      if (told.end < told.size && told.lines.length) ask();
    }, function () { asking = false; /* the shell says that the connection is lost */ });
  }
  box.addEventListener('rs-data', function (event) { take(event.detail.text); });
  body.addEventListener('rs:' + box.dataset.topic, function () { if (!(window.rsPushed && window.rsPushed(box.dataset.region))) ask(); });
  /* an agent may write without saying anything that is stored: a look now and then, more often where nothing is handed over */
  setInterval(function () {
    var every = window.rsPushed && window.rsPushed(box.dataset.region) ? SLOW : ASK;
    if (running && Date.now() - asked >= every) ask();
  }, 1000);
  box.addEventListener('scroll', function () { if (unseen && atEnd()) { unseen = 0; show(); } }, { passive: true });
  fresh.addEventListener('click', toEnd);
  pause.hidden = !running;
  pause.addEventListener('click', function () {
    paused = !paused;
    pause.setAttribute('aria-pressed', paused ? 'true' : 'false');
    pause.textContent = paused ? pause.dataset.follow : pause.dataset.pause;
    if (!paused) { ask(); toEnd(); }
  });
  toEnd();
})();
