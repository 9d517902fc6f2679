// Parts of the article that reach beyond the window and cannot be scrolled into it.
const width = document.documentElement.clientWidth;
const scrolls = (node) => {
  for (; node && node !== document.body; node = node.parentElement)
    if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(node).overflowX)) return true;
  return false;
};
return Array.from(document.querySelectorAll('article *'))
  .filter((node) => node.checkVisibility() && node.getBoundingClientRect().right > width + 1 && !scrolls(node.parentElement))
  .slice(0, 5).map((node) => `${node.tagName}.${node.className}: ${node.textContent.trim().slice(0, 40)}`);
