/* Blocking and tiny: the stored theme is set before anything is painted. */
(function () {
  'use strict';
  var stored = null;
  try { stored = localStorage.getItem('rs-theme'); } catch (error) { stored = null; }
  if (stored !== 'dark' && stored !== 'light') stored = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  document.documentElement.setAttribute('data-bs-theme', stored);
  document.documentElement.classList.add('js');
})();
