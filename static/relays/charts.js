/* Draws every chart from <script type="application/json"> and again when its data or the theme changes.
   Colours arrive as var(--rs-…) and are resolved here, so one stylesheet rules both themes.
   <div data-chart data-from="id of the JSON" data-src="address of fresh JSON" data-topic="what it follows">
   A chart with `data-tail` follows its topic by itself (flat.js). `rs-drawn` says that a chart was drawn; `rs-data`, sent
   to a chart with the text of its JSON, hands it over without a request. */
(function () {
  'use strict';
  var root = document.documentElement, body = document.body, NARROW = 520;
  var charts = Array.prototype.slice.call(document.querySelectorAll('[data-chart]'));
  if (!window.Plotly) return;
  /* the tables stand open for those who see no chart; app.css keeps them shut until here */
  Array.prototype.forEach.call(document.querySelectorAll('[data-chart-table]'), function (table) { table.open = false; });
  root.classList.add('charts');

  function resolved(value, style) {
    if (typeof value === 'string') return value.indexOf('var(--') === 0 ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
    if (Array.isArray(value)) return typeof value[0] === 'number' ? value : value.map(function (one) { return resolved(one, style); });
    if (value && typeof value === 'object') {
      return Object.keys(value).reduce(function (copy, key) { copy[key] = resolved(value[key], style); return copy; }, {});
    }
    return value;
  }

  /* annotations named `wide` or `narrow` are kept where they fit; `meta.narrow` changes the margins */
  function draw(element) {
    var given = element.figure, narrow = element.clientWidth < NARROW;
    if (!given) return;
    var figure = resolved(given, getComputedStyle(root)), layout = figure.layout, small = (layout.meta || {}).narrow;
    layout.annotations = (layout.annotations || []).filter(function (one) { return one.name !== (narrow ? 'wide' : 'narrow'); });
    layout.font = Object.assign({ family: getComputedStyle(body).fontFamily }, layout.font);
    if (narrow && small) {
      layout.margin = small.margin || layout.margin;
      if (small.nticks) layout.xaxis.nticks = small.nticks;
      if (small.noY) layout.yaxis.showticklabels = false;   // its labels stand inside as annotations
    }
    layout.separators = body.dataset.signs || '.,';   // numbers that the graph writes are the reader's too
    delete layout.meta;
    element.narrow = narrow;
    if (element.prepare) element.prepare(figure);
    window.Plotly.react(element, figure.data, layout, { displayModeBar: false, responsive: true });
    element.dispatchEvent(new CustomEvent('rs-drawn'));
  }
  function take(element, text) {
    if (element.text === text) return;       // nothing new, nothing is drawn
    element.text = text;
    var content = JSON.parse(text);
    element.figure = content.figure;
    if (content.alternative) element.setAttribute('aria-label', content.alternative);
    draw(element);
  }

  /* fresh data: one request at a time; what changes meanwhile is asked for once more */
  function fetchFresh(element) {
    if (element.asking) { element.again = true; return; }
    element.asking = true;
    var headers = element.tag ? { 'If-None-Match': element.tag } : {};
    fetch(element.dataset.src, { headers: headers, credentials: 'same-origin', redirect: 'error' }).then(function (response) {
      if (response.status !== 200) return null;
      element.tag = response.headers.get('ETag');
      return response.text();
    }).then(function (text) { if (text) take(element, text); }, function () { /* the shell says that the connection is lost */ })
      .then(function () {
        element.asking = false;
        if (element.again) { element.again = false; fetchFresh(element); }
      });
  }

  function adopt(element) {
    var source = document.getElementById(element.dataset.from);
    if (source) take(element, source.textContent);
    else if (element.dataset.src) fetchFresh(element);   // a refreshed region carries no script, also not one of data
    element.addEventListener('rs-data', function (event) { if (!element.dataset.tail) { element.tag = event.detail.etag; take(element, event.detail.text); } });
    if (element.dataset.src && element.dataset.topic && !element.dataset.tail) body.addEventListener('rs:' + element.dataset.topic, function () { if (!(window.rsPushed && window.rsPushed(element.dataset.src))) fetchFresh(element); });
    if (window.ResizeObserver) new ResizeObserver(function () { if (element.figure && element.narrow !== element.clientWidth < NARROW) draw(element); }).observe(element);
  }
  window.rsCharts = { fetchFresh: fetchFresh, draw: draw };
  charts.forEach(adopt);
  /* a chart that came with a refreshed region */
  document.addEventListener('htmx:afterSettle', function () {
    Array.prototype.forEach.call(document.querySelectorAll('[data-chart]'), function (element) {
      if (charts.indexOf(element) >= 0) return;
      charts.push(element);
      var table = element.parentNode.querySelector('[data-chart-table]');
      if (table) table.open = false;
      adopt(element);
    });
  });
  body.addEventListener('rs-theme', function () { charts.forEach(draw); });
})();
