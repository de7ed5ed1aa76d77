"""What a reader did on a page, and whether it is still so after every region of the page was given anew."""

from typing import Any

from playwright.sync_api import Page

#: stands in for the worker of the stream, so that a test says when which region comes
WORKER = """
(() => {
  const channel = new MessageChannel();
  window.SharedWorker = function () { this.port = channel.port1; };
  window.worker = { shown: [], tell(event, data) { channel.port2.postMessage({ event, data }); } };
  channel.port2.onmessage = event => {
    if (event.data.regions) { worker.shown = event.data.regions; worker.tell('here', { up: true }); }
  };
})();
"""

#: what a reader may do to `main`: open everything, write in every field, tick, choose, scroll boxes and the page
TOUCH = """
() => {
  const all = (what, from) => [...(from || document).querySelectorAll(what)];
  const regions = all('main [hx-get][hx-trigger*="rs"]');
  const seen = one => one.getClientRects().length > 0 && !one.closest('.visually-hidden');
  window.kept = [];
  const keep = (name, read) => kept.push({ name, read, was: read() });
  const where = one => one.tagName + '#' + (one.id || one.name || one.className || one.closest('[id]')?.id);
  const groups = new Map();
  all('main details').forEach(one => {
    one.open = !one.open;
    keep('open ' + where(one), () => one.isConnected && one.open);
  });
  all('main input, main textarea, main select').filter(seen).forEach(one => {
    if (['hidden', 'submit', 'button'].includes(one.type) || one.disabled || one.readOnly) return;
    if (one.type === 'radio') {
      groups.set(one.name, one);
    } else if (one.type === 'checkbox') {
      one.checked = !one.checked;
      keep('ticked ' + where(one), () => one.isConnected && one.checked);
    } else if (one.tagName === 'SELECT') {
      one.selectedIndex = one.options.length - 1;
      keep('chosen ' + where(one), () => one.isConnected && one.value);
    } else if (!['date', 'datetime-local', 'number', 'month', 'time'].includes(one.type)) {
      one.value = 'half a';
      keep('typed ' + where(one), () => one.isConnected && one.value);
    }
  });
  groups.forEach(one => {
    one.checked = true;
    keep('chosen ' + where(one), () => one.isConnected && one.checked);
  });
  const scrolls = how => /auto|scroll/.test(how);
  all('main *').forEach(one => {
    const style = getComputedStyle(one);
    if (one.scrollWidth > one.clientWidth + 4 && scrolls(style.overflowX)) {
      one.scrollLeft = 3;
      keep('scrolled across ' + where(one), () => one.isConnected && one.scrollLeft);
    }
    if (one.scrollHeight > one.clientHeight + 4 && scrolls(style.overflowY)) {
      one.scrollTop = 3;
      keep('scrolled ' + where(one), () => one.isConnected && one.scrollTop);
    }
  });
  const top = Math.min(120, document.documentElement.scrollHeight - innerHeight);
  window.scrollTo({ top, behavior: 'instant' });
  keep('scroll of the page', () => Math.round(scrollY));
  window.regions = regions;
  return regions.map(one => one.getAttribute('hx-get'));
}
"""

#: within one region: the n-th thing that takes focus, or a text that is marked
FOCUS = """
([region, at]) => {
  const root = [...document.querySelectorAll('main [hx-get]')].find(one => one.getAttribute('hx-get') === region);
  const what = 'a[href], button, summary, input:not([type=hidden]), textarea, select, [tabindex="0"]';
  const able = [...root.querySelectorAll(what)].filter(one => one.getClientRects().length && !one.disabled);
  if (!able.length) return 0;
  const one = able[at % able.length];
  one.focus({ preventScroll: true });
  if (document.activeElement !== one) return 0;
  if (one.tagName === 'TEXTAREA') one.setSelectionRange(1, 4);
  window.focused = one;
  window.tipped = !document.getElementById('tip').hidden;
  return able.length;
}
"""
SELECT = """
(region) => {
  const root = [...document.querySelectorAll('main [hx-get]')].find(one => one.getAttribute('hx-get') === region);
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walk.nextNode()) {
    const text = walk.currentNode, box = text.parentElement;
    if (text.data.trim().length < 4 || !box.getClientRects().length) continue;
    if (!box.closest('time, option, select, button')) texts.push(text);
  }
  if (!texts.length) return '';
  const text = texts[Math.floor(texts.length / 2)], from = text.data.search(/\\S/);
  getSelection().setBaseAndExtent(text, from, text, from + 3);
  return String(getSelection());
}
"""

#: what takes focus in the last row of a region that has several; its address or words, "" = there is none
IN_LAST_ROW = """
(region) => {
  const root = [...document.querySelectorAll('main [hx-get]')].find(one => one.getAttribute('hx-get') === region);
  const first = root.querySelector('[data-row]');
  const rows = first ? [...first.parentElement.children].filter(one => one.dataset.row) : [];
  const able = rows.length > 1 ? [...rows.pop().querySelectorAll('a[href], button')] : [];
  const one = able.find(one => one.getClientRects().length);
  if (!one) return '';
  one.focus({ preventScroll: true });
  return one.getAttribute('href') || one.textContent;
}
"""

#: the region comes again as the server makes it, with a row more and other words in it than before
GIVE = """
async ([region, number, rows]) => {
  const answer = await fetch(region, { headers: { 'HX-Request': 'true' }, credentials: 'same-origin' });
  if (answer.status !== 200) return answer.status;
  let text = await answer.text();
  const made = new DOMParser().parseFromString(text, 'text/html').body, root = made.firstElementChild;
  root.dataset.given = number;
  const first = made.querySelector('[data-row]'), list = first && first.parentElement;
  const last = list && [...list.children].filter(one => one.dataset.row).pop();
  if (rows === 'above') {                   // something came: the newest stands first
    const more = first.cloneNode(true);
    more.dataset.row = 'new-' + number;
    [more, ...more.querySelectorAll('[id]')].forEach(one => one.removeAttribute('id'));
    first.before(more);
  }
  if (rows === 'moved') first.before(last);
  made.querySelectorAll('time').forEach(one => { one.append(' ' + number); });
  window.worker.tell('region', { region, etag: '"given-' + number + '"', type: 'text/html', body: made.innerHTML });
  return 200;
}
"""
GIVEN = """
([region, number]) => [...document.querySelectorAll('[data-given]')].some(
  one => one.dataset.given === String(number) && one.getAttribute('hx-get') === region)
"""


class Reader:
    """A reader of one live page whose regions the test gives anew."""

    def __init__(self, page: Page) -> None:
        self.page, self.number = page, 0

    def touch(self) -> list[str]:
        """Do everything once; the addresses of the page's regions."""
        self.page.evaluate("() => worker.tell('hello', { build: '', fresh: false, regions: worker.shown })")
        return list(self.page.evaluate(TOUCH))

    def give(self, region: str, rows: str = "") -> None:
        """`rows`: "above" = with one row more, before the others; "moved" = the last one stands first now."""
        self.number += 1
        status = self.page.evaluate(GIVE, [region, self.number, rows])
        assert status == 200, (region, status)
        self.page.wait_for_function(GIVEN, arg=[region, self.number], timeout=10_000)

    def lost(self) -> list[str]:
        """What is not any more as the reader left it."""
        found = self.page.evaluate(
            "() => kept.filter(one => one.read() !== one.was).map(one => `${one.name}: ${one.was} -> ${one.read()}`)"
        )
        return list(found)

    def focus(self, region: str, at: int) -> int:
        return int(self.page.evaluate(FOCUS, [region, at]))

    def focused(self) -> Any:
        return self.page.evaluate("() => document.activeElement === focused && focused.isConnected")
