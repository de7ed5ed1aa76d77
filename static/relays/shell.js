/* What every page has: theme, copying, times in the viewer's zone, keys. Reading works without any of it. */
(function () {
  'use strict';
  var root = document.documentElement, body = document.body;
  var all = function (selector, from) { return Array.prototype.slice.call((from || document).querySelectorAll(selector)); };

  /* ---- theme: the stored choice, else the system's ---- */
  function keep(name, value) { document.cookie = name + '=' + value + '; path=/; max-age=31536000; samesite=lax' + (location.protocol === 'https:' ? '; secure' : ''); }
  function chosen() { return /(?:^|; )rs-theme=(dark|light)/.test(document.cookie); }
  function theme(name, stays) {
    root.setAttribute('data-bs-theme', name);
    if (stays) keep('rs-theme', name);
    body.dispatchEvent(new CustomEvent('rs-theme', { bubbles: true, detail: { theme: name } }));
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', function (event) { if (!chosen()) theme(event.matches ? 'dark' : 'light'); });
  /* paper is light: charts are drawn anew for it, and back afterwards */
  var before = null;
  function printing(on) {
    if (on && before === null) { before = root.getAttribute('data-bs-theme') || ''; theme('light', false); }
    else if (!on && before !== null) { theme(before || 'light', false); if (!before) root.removeAttribute('data-bs-theme'); before = null; }
  }
  window.addEventListener('beforeprint', function () { printing(true); });
  window.addEventListener('afterprint', function () { printing(false); });
  matchMedia('print').addEventListener('change', function (event) { printing(event.matches); });
  all('[data-theme-toggle]').forEach(function (button) {
    button.hidden = false;
    button.addEventListener('click', function () { theme(root.getAttribute('data-bs-theme') === 'dark' ? 'light' : 'dark', true); });
  });

  /* ---- copy: the whole value, not the shortened one ---- */
  document.addEventListener('click', function (event) {
    var button = event.target.closest('[data-copy]');
    if (!button || !navigator.clipboard) return;
    navigator.clipboard.writeText(button.dataset.copy).then(function () {
      button.classList.add('copied');
      setTimeout(function () { button.classList.remove('copied'); }, 1200);
    }, function () { button.classList.remove('copied'); });
  });

  /* ---- print: what the browser's own menu does, where one looks for it ---- */
  document.addEventListener('click', function (event) { if (event.target.closest('[data-print]')) window.print(); });

  /* ---- times: the server writes them in the viewer's zone once this browser's is known; the first page is turned here ---- */
  var two = function (n) { return (n < 10 ? '0' : '') + n; };
  var zone = Intl.DateTimeFormat().resolvedOptions().timeZone || '', known = body.dataset.zone;
  if (zone && known !== 'chosen' && zone !== body.dataset.zoneName) keep('rs-zone', zone);
  function day(d) { return d.getFullYear() + '-' + two(d.getMonth() + 1) + '-' + two(d.getDate()); }
  function hms(d) { return two(d.getHours()) + ':' + two(d.getMinutes()) + ':' + two(d.getSeconds()); }
  function times(from) {
    if (!zone || known === 'chosen' || zone === body.dataset.zoneName) return;
    all('time[datetime]', from).forEach(function (element) {
      var at = new Date(element.getAttribute('datetime'));
      if (isNaN(at)) return;
      element.title = day(at) + ' ' + hms(at) + ' ' + zone;
      if (element.classList.contains('clock')) element.textContent = day(at) === day(new Date()) ? hms(at) : day(at) + ' ' + two(at.getHours()) + ':' + two(at.getMinutes());
    });
    all('[data-times-in]').forEach(function (element) { element.textContent = element.dataset.timesIn + ' ' + zone; });
  }
  times(document);
  document.addEventListener('htmx:afterSettle', function () { times(document); marked(); });

  /* ---- open menus close when one presses elsewhere, or the focus goes there: they never lie over what has it ---- */
  ['click', 'focusin'].forEach(function (what) {
    document.addEventListener(what, function (event) {
      all('details.menu[open]').forEach(function (menu) { if (!menu.contains(event.target)) menu.open = false; });
    });
  });

  /* ---- keys: j k Enter / ? ; everything they do a link or a field does too ---- */
  var keys = document.getElementById('keys'), at = null;
  var rows = function () { return all('[data-row]').filter(function (row) { return row.getClientRects().length; }); };
  function marked() {
    all('[data-row].sel').forEach(function (row) { row.classList.remove('sel'); });
    var row = at && rows().filter(function (one) { return one.dataset.row === at; })[0];
    if (row) row.classList.add('sel');
    return row;
  }
  function move(step) {
    var list = rows(), now = -1;
    list.forEach(function (row, n) { if (row.dataset.row === at) now = n; });
    var next = list[Math.max(0, Math.min(list.length - 1, now < 0 ? 0 : now + step))];
    if (!next) return;
    at = next.dataset.row;
    marked();
    next.scrollIntoView({ block: 'nearest' });
    var link = next.querySelector('[data-open]');
    if (link) link.focus({ preventScroll: true });
  }
  function search() {
    var field = document.getElementById('q') || document.getElementById('gq');
    if (field && field.getClientRects().length) { field.focus(); field.select(); return; }
    var link = document.querySelector('[data-search]');
    if (link) location.href = link.href;
  }
  if (location.hash === '#q') search();
  document.addEventListener('keydown', function (event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    var field = event.target.closest('input, textarea, select, [contenteditable]');
    if (event.key === 'Escape') {
      if (field) field.blur();
      all('details.menu[open]').forEach(function (menu) {
        var inside = menu.contains(event.target);
        menu.open = false;
        if (inside) menu.querySelector('summary').focus();   // the focus does not get lost with what held it
      });
      return;
    }
    if (field || (keys && keys.open) || body.dataset.keys === 'off') return;
    if (event.key === 'j' || event.key === 'k') { move(event.key === 'j' ? 1 : -1); }
    else if (event.key === 'Enter') {
      if (event.target.closest('a, button, summary, [tabindex="0"]')) return;
      var row = marked(), link = row && row.querySelector('[data-open]');
      if (link) location.href = link.href; else return;
    }
    else if (event.key === '/') { search(); }
    else if (event.key === '?' && keys) { keys.showModal(); }
    else return;
    event.preventDefault();
  });
  if (keys) keys.addEventListener('click', function (event) { if (event.target === keys) keys.close(); });

  /* a filter that is changed is applied at once; without JavaScript its button does it */
  all('form[data-auto]').forEach(function (form) {
    form.addEventListener('change', function (event) { if (event.target.tagName === 'SELECT') form.requestSubmit(); });
  });
})();
