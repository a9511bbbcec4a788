"use strict";
(function () {
  var root = document.documentElement;

  function dark() {
    var chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function themes() {
    var toggle = document.getElementById("theme");
    function name() {
      toggle.textContent = dark() ? "Light colours" : "Dark colours";
    }
    toggle.hidden = false;
    name();
    toggle.addEventListener("click", function () {
      root.dataset.theme = dark() ? "light" : "dark";
      name();
    });
  }

  function saving() {
    var save = document.getElementById("save");
    save.hidden = false;
    save.addEventListener("click", function () {
      var text = document.getElementById("figures").textContent;
      var link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "figures.json";
      link.click();
    });
  }

  function key(row, column) {
    var cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") { return a - b; }
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }

  function empty(value) {
    return value === "" || value === "–" || Number.isNaN(value);
  }

  function sort(table, head, column) {
    var up = head.getAttribute("aria-sort") === "descending" ||
      (head.getAttribute("aria-sort") !== "ascending" && !("descending" in head.dataset));
    table.querySelectorAll("th[aria-sort]").forEach(function (other) {
      other.setAttribute("aria-sort", "none");
    });
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    var body = table.tBodies[0];
    Array.from(body.rows).map(function (row) {
      return { row: row, key: key(row, column) };
    }).sort(function (a, b) {
      if (empty(a.key) || empty(b.key)) { return empty(a.key) - empty(b.key); }
      return up ? compare(a.key, b.key) : compare(b.key, a.key);
    }).forEach(function (entry) { body.appendChild(entry.row); });
  }

  function sorting() {
    document.querySelectorAll("table.sortable").forEach(function (table) {
      Array.from(table.tHead.rows[0].cells).forEach(function (head, column) {
        if ("fixed" in head.dataset) { return; }
        var button = document.createElement("button");
        button.type = "button";
        while (head.firstChild) { button.appendChild(head.firstChild); }
        head.appendChild(button);
        if (!head.hasAttribute("aria-sort")) { head.setAttribute("aria-sort", "none"); }
        button.addEventListener("click", function () { sort(table, head, column); });
      });
    });
  }

  function setUp() {
    themes();
    saving();
    sorting();
  }

  setUp();
  document.addEventListener("renewed", setUp);
})();
