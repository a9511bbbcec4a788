"use strict";
(function () {
  var EVERY = 2000;
  var last = document.getElementById("live").innerHTML;

  function take(fresh, id) {
    document.getElementById(id).replaceWith(fresh.getElementById(id));
  }

  function renew(fresh) {
    var main = document.getElementById("content"), active = document.activeElement;
    if (main.contains(active) && active !== main) {
      take(fresh, "live");
      return;
    }
    document.querySelector("header.top").replaceWith(fresh.querySelector("header.top"));
    take(fresh, "content");
    take(fresh, "figures");
    document.dispatchEvent(new Event("renewed"));
  }

  function look() {
    fetch(window.location.pathname, { cache: "no-store" }).then(function (answer) {
      if (!answer.ok) { throw new Error("the peer answers " + answer.status); }
      return answer.text();
    }).then(function (text) {
      var fresh = new DOMParser().parseFromString(text, "text/html");
      var now = fresh.getElementById("live").innerHTML;
      if (now !== last) { last = now; renew(fresh); }
      window.setTimeout(look, EVERY);
    }).catch(function () {
      document.getElementById("live-h").textContent = "The peer no longer answers; this was its last word";
      window.setTimeout(look, EVERY);
    });
  }

  window.setTimeout(look, EVERY);
})();
