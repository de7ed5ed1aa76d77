/* What explains itself: a title is shown on focus as on hover, stays while one points at it, and goes with Escape. */
(function () {
  'use strict';
  var tip = document.getElementById('tip'), at = null, late = 0;
  if (!tip) return;
  function told(element) {
    if (element.title) { element.dataset.tip = element.title; element.removeAttribute('title'); }
    return element.dataset.tip || element.dataset.source || '';
  }
  function show(element) {
    clearTimeout(late);
    var text = told(element);
    if (!text || (at === element && !tip.hidden)) return;
    hide();
    at = element;
    tip.textContent = text;
    tip.hidden = false;
    element.setAttribute('aria-describedby', 'tip');
    var box = element.getBoundingClientRect(), own = tip.getBoundingClientRect(), edge = document.documentElement.clientWidth;
    tip.style.left = Math.max(8, Math.min(box.left, edge - own.width - 8)) + 'px';
    tip.style.top = (box.bottom + 6 + own.height > window.innerHeight && box.top > own.height + 8 ? box.top - own.height - 6 : box.bottom + 6) + 'px';
  }
  function hide() {
    clearTimeout(late);
    if (at) at.removeAttribute('aria-describedby');
    at = null;
    tip.hidden = true;
  }
  function soon() { clearTimeout(late); late = setTimeout(hide, 200); }
  function of(event) { return event.target.closest && event.target.closest('[title], [data-tip], [data-source]'); }
  document.addEventListener('mouseover', function (event) {
    if (tip.contains(event.target)) { clearTimeout(late); return; }
    var element = of(event);
    if (element) show(element); else if (at && at !== document.activeElement) soon();
  });
  document.addEventListener('focusin', function (event) { var element = of(event); if (element) show(element); else hide(); });
  document.addEventListener('focusout', function () { hide(); });
  document.addEventListener('keydown', function (event) { if (event.key === 'Escape') hide(); });
  window.addEventListener('scroll', hide, { passive: true, capture: true });
})();
