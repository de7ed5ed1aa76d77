/* What explains itself: a title is shown on focus as on hover, stays while one points at it, and goes with Escape. Of a
   card's label the head of its column says the title, which stands in the page once. A finger that taps is told first;
   where the same is tapped again, its link is followed. */
(function () {
  'use strict';
  var tip = document.getElementById('tip'), at = null, late = 0, tapped = null, touched = null;
  if (!tip) return;
  function told(element) {
    if (element.title) { element.dataset.tip = element.title; element.removeAttribute('title'); }
    if (element.dataset.tip || element.dataset.source) return element.dataset.tip || element.dataset.source;
    var table = element.matches('a.k') && element.closest('table');
    var head = table && table.querySelector('thead a.ex[href="' + element.getAttribute('href') + '"]');
    return head ? told(head) : '';
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
    place();
  }
  function place() {
    var box = at.getBoundingClientRect(), own = tip.getBoundingClientRect(), edge = document.documentElement.clientWidth;
    tip.style.left = Math.max(8, Math.min(box.left, edge - own.width - 8)) + 'px';
    tip.style.top = (box.bottom + 6 + own.height > window.innerHeight && box.top > own.height + 8 ? box.top - own.height - 6 : box.bottom + 6) + 'px';
  }
  function hide() {
    clearTimeout(late);
    if (at) at.removeAttribute('aria-describedby');
    at = touched = null;
    tip.hidden = true;
  }
  function soon() { clearTimeout(late); late = setTimeout(hide, 200); }
  function of(event) { return event.target.closest && event.target.closest('[title], [data-tip], [data-source], a.k'); }
  document.addEventListener('mouseover', function (event) {
    if (tip.contains(event.target)) { clearTimeout(late); return; }
    var element = of(event);
    if (element) show(element); else if (at && at !== document.activeElement && at !== touched) soon();
  });
  document.addEventListener('focusin', function (event) { var element = of(event); if (element) show(element); else hide(); });
  document.addEventListener('focusout', function () { hide(); });
  document.addEventListener('keydown', function (event) { if (event.key === 'Escape') hide(); });
  // a focus or a tap that brings its element into view scrolls too: it stays told, beside where it stands now
  window.addEventListener('scroll', function () {
    if (at && (at === document.activeElement || at === touched)) place(); else hide();
  }, { passive: true, capture: true });

  /* ---- a finger: only what explains (it leads to the docs) is told before it is followed ---- */
  document.addEventListener('pointerdown', function (event) {
    var element = event.pointerType !== 'mouse' && of(event);
    if (touched && of(event) !== touched) hide();
    if (element && !/^\/(docs|vocabulary)\//.test(element.getAttribute('href') || '')) element = null;
    tapped = element ? { element: element, again: at === element && !tip.hidden } : null;
  });
  document.addEventListener('click', function (event) {
    if (!tapped || tapped.element !== of(event)) return;
    var again = tapped.again, element = tapped.element, announce = document.getElementById('announce');
    tapped = null;
    if (again || !told(element)) return;
    event.preventDefault();
    show(element);
    touched = element;
    if (tip.dataset.again) { tip.textContent = told(element) + ' ' + tip.dataset.again; place(); }
    if (announce) announce.textContent = told(element);
  });
})();
