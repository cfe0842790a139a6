
// Without this the page is whole; with it the list of checks can be searched.
(function () {
  var box = document.getElementById("search");
  var words = document.getElementById("words");
  var shown = document.getElementById("shown");
  var rows = Array.prototype.slice.call(document.querySelectorAll("#all tbody tr"));
  box.hidden = false;
  words.addEventListener("input", function () {
    var wanted = words.value.toLowerCase().split(" ");
    var count = 0;
    rows.forEach(function (row) {
      var text = row.textContent.toLowerCase();
      row.hidden = !wanted.every(function (word) { return text.includes(word); });
      count += row.hidden ? 0 : 1;
    });
    document.getElementById("list").open = true;
    shown.textContent = count + " of " + rows.length + " checks";
  });
  addEventListener("beforeprint", function () {
    document.querySelectorAll("article details").forEach(function (details) { details.open = true; });
  });
})();
