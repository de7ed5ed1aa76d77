/* A page that stayed open across an upgrade says so, once, and goes on as it is. It is loaded anew when the reader says so,
   and what was typed stands there again. `rs-build` on body, with the version that answers now, comes from live.js. */
(function () {
  'use strict';
  var body = document.body, box = document.getElementById('newer'), KEY = 'rs-typed', said = false;
  if (!box) return;
  body.addEventListener('rs-build', function (event) {
    if (said || !event.detail || !body.dataset.build || event.detail === body.dataset.build) return;
    said = true;
    box.hidden = false;
    var announce = document.getElementById('announce');
    if (announce) announce.textContent = box.querySelector('[data-newer-words]').textContent;
  });
  box.querySelector('[data-newer-later]').addEventListener('click', function () { box.hidden = true; });

  /* ---- what was typed: kept for this address, window and person alone, put back once ---- */
  function fields() {
    return Array.prototype.filter.call(document.querySelectorAll('main input, main textarea, main select'), function (one) {
      return one.name && !/^(password|hidden|file|submit|button|reset|image)$/.test(one.type);
    });
  }
  function ticked(one) { return one.type === 'checkbox' || one.type === 'radio'; }
  function name(one) { return [one.form ? one.form.getAttribute('action') || '' : '', one.name, ticked(one) ? one.value : ''].join(' '); }
  function state(one) { return ticked(one) ? one.checked : one.value; }
  function initial(one) {
    if (ticked(one)) return one.defaultChecked;
    if (one.tagName !== 'SELECT') return one.defaultValue;
    var chosen = Array.prototype.filter.call(one.options, function (option) { return option.defaultSelected; })[0] || one.options[0];
    return chosen ? chosen.value : '';
  }
  box.querySelector('[data-newer-reload]').addEventListener('click', function () {
    var typed = fields().filter(function (one) { return state(one) !== initial(one); }).map(function (one) { return [name(one), state(one)]; });
    try { sessionStorage.setItem(KEY, JSON.stringify({ at: location.pathname + location.search, who: body.dataset.live, typed: typed })); } catch (_) { /* it may be forbidden */ }
    location.reload();
  });
  var kept = null;
  try { kept = JSON.parse(sessionStorage.getItem(KEY) || 'null'); sessionStorage.removeItem(KEY); } catch (_) { kept = null; }
  if (!kept || kept.at !== location.pathname + location.search || kept.who !== body.dataset.live) return;
  fields().forEach(function (one) {
    kept.typed.forEach(function (pair) {
      if (pair[0] !== name(one)) return;
      if (ticked(one)) one.checked = pair[1]; else one.value = pair[1];
      for (var inside = one.closest('details'); inside; inside = inside.parentElement.closest('details')) inside.open = true;
      one.dispatchEvent(new Event('input', { bubbles: true }));
    });
  });
})();
