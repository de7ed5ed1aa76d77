/* Blocking and tiny: the theme stands before anything is painted. The server knows a chosen one, by its cookie. */
(function () {
  'use strict';
  var stored = document.documentElement.getAttribute('data-bs-theme');
  if (stored !== 'dark' && stored !== 'light') stored = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  document.documentElement.setAttribute('data-bs-theme', stored);
  document.documentElement.classList.add('js');
})();
