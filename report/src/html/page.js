
// Without this the page is whole; with it lists can be filtered, and texts copied.
(function () {
  function make(name, className, text) {
    var element = document.createElement(name);
    element.className = className;
    element.textContent = text || "";
    return element;
  }
  function each(list, what) { Array.prototype.forEach.call(list, what); }

  // Texts to copy: where the page came over plain http, there is only the old way.
  function copy(text) {
    if (navigator.clipboard) { return navigator.clipboard.writeText(text); }
    var area = make("textarea", "", text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    return Promise.resolve();
  }
  each(document.querySelectorAll("[data-copy]"), function (source) {
    var button = make("button", "copy", "copy");
    button.type = "button";
    button.setAttribute("aria-label", "Copy " + source.dataset.copy);
    button.addEventListener("click", function () {
      copy(source.innerText.trim()).then(function () {
        button.textContent = "copied";
        setTimeout(function () { button.textContent = "copy"; }, 2000);
      });
    });
    if (source.tagName === "CODE") { source.after(" ", button); } else { source.before(button); }
  });

  // What a row is filtered by: its status, its level, and its group.
  each(document.querySelectorAll("table.list"), function (table) {
    var rows = Array.prototype.filter.call(table.tBodies, function (body) { return body.dataset.of; })
      .reduce(function (all, body) { return all.concat(Array.prototype.slice.call(body.rows)); }, [])
      .filter(function (row) { return row.className !== "group"; })
      .map(function (row) {
        var level = row.querySelector("th small");
        level = level && /^(MUST|SHOULD)$/.test(level.textContent) ? level.textContent : "";
        return { row: row, body: row.parentNode, status: row.querySelector(".s").textContent, level: level,
          text: row.textContent.toLowerCase() };
      });
    var details = table.parentNode;
    var box = make("div", "filter");
    var shown = make("p", "dim");
    shown.setAttribute("role", "status");
    var words = make("input");
    var group = make("select");
    var chips = [];

    function show() {
      var wanted = words.value.toLowerCase().split(" ");
      var count = 0;
      function on(name) {
        return chips.filter(function (chip) { return chip.name === name && chip.on; })
          .map(function (chip) { return chip.value; });
      }
      var states = on("status"), levels = on("level");
      each(table.tBodies, function (body) { body.hidden = true; });
      rows.forEach(function (one) {
        var fits = (!states.length || states.includes(one.status)) && (!levels.length || levels.includes(one.level)) &&
          (!group.value || one.body.dataset.of === group.value) &&
          wanted.every(function (word) { return one.text.includes(word); });
        one.row.hidden = !fits;
        if (fits) { count += 1; one.body.hidden = false; }
      });
      shown.textContent = count + " of " + rows.length;
    }
    function changed() { details.open = true; show(); }
    ["level", "status"].forEach(function (name) {
      var counts = new Map();
      rows.forEach(function (one) { if (one[name]) { counts.set(one[name], (counts.get(one[name]) || 0) + 1); } });
      counts.forEach(function (count, value) {
        var chip = { name: name, value: value, on: false };
        var button = make("button", "chip", value + " " + count);
        button.type = "button";
        button.setAttribute("aria-pressed", "false");
        button.addEventListener("click", function () {
          chip.on = !chip.on;
          button.setAttribute("aria-pressed", String(chip.on));
          changed();
        });
        chips.push(chip);
        box.append(button);
      });
    });
    group.append(new Option("every " + table.dataset.of, ""));
    var names = new Set();
    each(table.tBodies, function (body) { names.add(body.dataset.of); });
    names.forEach(function (name) { group.append(new Option(name, name)); });
    group.setAttribute("aria-label", table.dataset.of);
    group.addEventListener("change", changed);
    words.type = "search";
    words.placeholder = "words, an id, an RPC";
    words.setAttribute("aria-label", "Show only what has");
    words.addEventListener("input", changed);
    box.append(group, words, shown);
    details.before(box);
    show();
  });

  // A link into a closed list opens it.
  function open() {
    var place = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var at = place; at; at = at.parentElement) { if (at.tagName === "DETAILS") { at.open = true; } }
    if (place) { place.scrollIntoView(); }
  }
  addEventListener("hashchange", open);
  open();
  addEventListener("beforeprint", function () {
    each(document.querySelectorAll("article details"), function (details) { details.open = true; });
  });
})();
