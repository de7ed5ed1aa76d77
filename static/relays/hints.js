/* The three hints of a first sign-in, one after the other, each pointing at the thing that it is about.
   Without JavaScript they are a list with one button. */
(function () {
  'use strict';
  var box = document.getElementById('hints');
  if (!box) return;
  var form = box.querySelector('form'), hints = Array.prototype.slice.call(box.querySelectorAll('[data-points]'));
  var next = box.querySelector('[data-next]'), now = 0, pointed = null;
  function seen(element) { return element.getClientRects().length > 0; }
  function show(n) {
    now = n;
    hints.forEach(function (hint, at) { hint.hidden = at !== n; });
    if (pointed) pointed.classList.remove('pointed');
    pointed = Array.prototype.slice.call(document.querySelectorAll(hints[n].dataset.points)).filter(seen)[0] || null;
    if (pointed) pointed.classList.add('pointed');
    next.hidden = n === hints.length - 1;
  }
  function done() {
    if (pointed) pointed.classList.remove('pointed');
    fetch(form.action, { method: 'POST', body: new FormData(form), redirect: 'manual', credentials: 'same-origin' });
    box.remove();
    document.getElementById('main').focus({ preventScroll: true });
  }
  next.hidden = false;
  next.addEventListener('click', function () { show(Math.min(now + 1, hints.length - 1)); if (next.hidden) form.querySelector('button').focus(); });
  form.addEventListener('submit', function (event) { event.preventDefault(); done(); });
  box.addEventListener('keydown', function (event) { if (event.key === 'Escape') { event.stopPropagation(); done(); } });
  box.classList.add('stepped');
  show(0);
})();
