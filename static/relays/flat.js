/* The flat-context graph: zoom into a leg and back, marks that lead somewhere, the baseline's window, and new turns that
   lengthen the newest line where it stands. Without this file the graph is drawn and its links work.
   <div data-chart data-flat data-here="the relay's address" data-gate="address of gate 0" data-tail="newest turns"> */
(function () {
  'use strict';
  var element = document.querySelector('[data-flat]'), body = document.body;
  if (!element || !window.Plotly || !window.rsCharts) return;
  var here = element.dataset.here, asking = false, again = false, tag = null, hooked = false;

  /* ---- what the address says: ?leg= the zoom, ?base=1 the baseline ---- */
  function said(name) { return new URLSearchParams(location.search).get(name) || ''; }
  function leg() { var n = said('leg'); return /^\d{1,9}$/.test(n) ? n : ''; }
  function address(name, value) {
    var query = new URLSearchParams(location.search);
    if (value === '') query.delete(name); else query.set(name, value);
    query.delete('part');
    var text = query.toString();
    return location.pathname + (text ? '?' + text : '');
  }
  function part(name) { return here + '?part=' + name + (leg() ? '&leg=' + leg() : ''); }

  /* ---- zoom: the address first, then the graph and its table; back and forward do the same ---- */
  function show() {
    element.dataset.src = part('chart');
    element.tag = null;
    window.rsCharts.fetchFresh(element);
    var region = document.getElementById('r-series');
    if (!region || !window.htmx) return;
    region.setAttribute('hx-get', part('series'));
    delete region.dataset.etag;
    window.htmx.process(region);
    window.htmx.ajax('GET', part('series'), { source: region, target: region, swap: 'morph' });
    body.dispatchEvent(new CustomEvent('rs-regions'));   // the page shows another region now
  }
  /* an answer that was asked for before the zoom came is not shown after it */
  document.addEventListener('htmx:beforeSwap', function (event) {
    var target = event.detail.target, url = event.detail.xhr && event.detail.xhr.responseURL;
    if (target && target.id === 'r-series' && url && (new URL(url).searchParams.get('leg') || '') !== leg()) event.detail.shouldSwap = false;
  });
  function zoom(n) {
    if (n === leg()) return;
    history.pushState({}, '', address('leg', n) + '#graph');
    show();
  }
  window.addEventListener('popstate', function () { if (element.dataset.src !== part('chart')) show(); toggle(said('base') === '1', false); });
  document.addEventListener('click', function (event) {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    var link = event.target.closest('[data-zoom]'), row = event.target.closest('tr[data-row^="leg-"]');
    if (link) { event.preventDefault(); zoom(link.dataset.zoom); if (!link.closest('#r-series')) reveal(); }
    else if (row && !event.target.closest('a, button, summary, input, label') && !String(window.getSelection())) { zoom(row.dataset.row.slice(4)); reveal(); }
  });
  function reveal() { document.getElementById('graph').scrollIntoView({ block: 'nearest' }); }

  /* ---- marks and lines are links ---- */
  function go(event) {
    var point = event.points && event.points[0], to = point && point.customdata;
    if (!to) return;
    if (to[0] === 'gate') location.href = element.dataset.gate.replace('/0/', '/' + to[1] + '/');
    else if (to[0] === 'baton') location.href = here + 'batons/' + to[1] + '/';
    else if (to[0] === 'leg') location.href = here + 'legs/' + to[1] + '/?turn=' + to[2] + '#turns';
    else if (leg()) location.href = here + 'legs/' + to[0] + '/?turn=' + to[1] + '#turns';
    else zoom(String(to[0]));
  }
  function number(event) { var text = event.annotation && event.annotation.text; if (/^\d+$/.test(text || '') && !leg()) zoom(text); }
  function hook() {
    if (hooked || !element.on) return;
    hooked = true;
    element.on('plotly_click', go);
    element.on('plotly_clickannotation', number);
  }
  element.addEventListener('rs-drawn', hook);
  hook();                                    // it is drawn before this file is read

  /* ---- the baseline's window ---- */
  function base() { return (element.data || []).map(function (one) { return one.name; }).indexOf('baseline'); }
  element.prepare = function (figure) { figure.data.forEach(function (one) { if (one.name === 'baseline') one.visible = said('base') === '1'; }); };
  function toggle(on, write) {
    var at = base();
    if (write) history.replaceState({}, '', address('base', on ? '1' : '') + location.hash);
    if (at >= 0 && element.data[at].visible !== on) window.Plotly.restyle(element, { visible: on }, [at]);
    pressed();
  }
  function pressed() {
    Array.prototype.forEach.call(document.querySelectorAll('[data-flat-base]'), function (button) { button.hidden = false; button.setAttribute('aria-pressed', said('base') === '1' ? 'true' : 'false'); });
  }
  document.addEventListener('click', function (event) { if (event.target.closest('[data-flat-base]')) toggle(said('base') !== '1', true); });
  document.addEventListener('htmx:afterSettle', pressed);
  if (said('base') === '1') toggle(true, false); else pressed();

  /* ---- live: what is new is added; whatever else changed is drawn anew (zoom and baseline stay) ---- */
  function whole() { window.rsCharts.fetchFresh(element); }
  function index(name) { return (element.data || []).map(function (one) { return one.name; }).indexOf(name); }
  function grow(text) {
    var figure = element.figure, live = figure && figure.layout.meta && figure.layout.meta.live, tail = JSON.parse(text);
    if (!live || live.key !== tail.key) { if (tail.turns || !figure) whole(); return; }
    if (live.focus !== undefined && live.focus !== tail.leg) return;   // zoomed into a leg that grows no more
    var line = index(live.joined ? 'leg-a' : tail.odd ? 'leg-b' : 'leg-a'), lane = index('held');
    var from = tail.x.findIndex(function (x) { return x > live.x; });
    var last = tail.holds.x.length ? tail.holds.x[tail.holds.x.length - 1] : 0;
    var drawn = lane >= 0 ? Math.max.apply(null, element.data[lane].x) : 0;
    if ((from === 0 && live.x && tail.x[0] > live.x + 1) || tail.turns > live.right || line < 0 || (last && lane < 0)) { whole(); return; }
    var which = [];
    if (from >= 0) add(line, tail.x.slice(from), tail.y.slice(from), tail.who.slice(from), null);
    var held = tail.holds.x.findIndex(function (x) { return x > drawn; });
    if (held >= 0) {
      named(line, tail);
      add(lane, tail.holds.x.slice(held), tail.holds.x.slice(held).map(function () { return live.lane; }), tail.holds.who.slice(held), tail.holds.text.slice(held));
    }
    if (!which.length) return;
    if (tail.x.length) live.x = Math.max(live.x, tail.x[tail.x.length - 1]);   // a turn counts before its call is known
    extend(which);
    function add(at, x, y, who, words) { which.push({ at: at, x: x, y: y, customdata: who, text: words }); }
  }
  /* a hold comes after its turn: the point that is drawn already learns of it */
  function named(line, tail) {
    var trace = element.data[line];
    tail.x.forEach(function (x, n) { var at = trace.x.lastIndexOf(x); if (at >= 0 && trace.customdata) trace.customdata[at] = tail.who[n]; });
  }
  function extend(news) {
    var hovered = (element._hoverdata || []).map(function (one) { return { curveNumber: one.curveNumber, pointNumber: one.pointNumber }; });
    news.forEach(function (one) {
      var more = { x: [one.x], y: [one.y], customdata: [one.customdata] }, kept = element.figure.data[one.at];
      if (one.text) more.text = [one.text];
      window.Plotly.extendTraces(element, more, [one.at]);
      Object.keys(more).forEach(function (name) { kept[name] = (kept[name] || []).concat(more[name][0]); });
    });
    if (hovered.length) window.Plotly.Fx.hover(element, hovered);
    element.dispatchEvent(new CustomEvent('rs-grown'));
  }
  function ask() {
    if (asking) { again = true; return; }
    asking = true;
    fetch(element.dataset.tail, { headers: tag ? { 'If-None-Match': tag } : {}, credentials: 'same-origin', redirect: 'error' }).then(function (response) {
      if (response.status !== 200) return null;
      tag = response.headers.get('ETag');
      return response.text();
    }).then(function (text) { if (text) grow(text); }, function () { /* the shell says that the connection is lost */ }).then(function () {
      asking = false;
      if (again) { again = false; ask(); }
    });
  }
  element.addEventListener('rs-data', function (event) { grow(event.detail.text); });
  body.addEventListener('rs:' + element.dataset.topic, function () { if (!(window.rsPushed && window.rsPushed(element.dataset.tail))) ask(); });
})();
