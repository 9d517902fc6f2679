// A click on a figure shows it as large as the window; a click, Escape or Enter closes it again.
document.addEventListener("DOMContentLoaded", () => {
  const dialog = document.createElement("dialog");
  dialog.className = "zoom";
  dialog.setAttribute("aria-label", "Enlarged figure");
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);

  const open = (image) => {
    const copy = image.cloneNode();
    copy.removeAttribute("style");
    copy.removeAttribute("width");
    copy.removeAttribute("role");
    copy.tabIndex = 0;
    dialog.replaceChildren(copy);
    dialog.showModal();
  };

  for (const image of document.querySelectorAll("article figure img, article .cell_output img")) {
    image.tabIndex = 0;
    image.classList.add("zoomable");
    image.title = "Enlarge";
    image.addEventListener("click", () => open(image));
    image.addEventListener("keydown", (event) => {
      if (event.key === "Enter") open(image);
    });
  }
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Enter") dialog.close();
  });
});
