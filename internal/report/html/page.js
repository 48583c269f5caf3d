"use strict";
document.addEventListener("click", function (event) {
	if (event.target.id !== "download") { return; }
	const url = URL.createObjectURL(new Blob([document.getElementById("data").textContent], { type: "application/json" }));
	const link = document.createElement("a");
	link.href = url;
	link.download = event.target.dataset.name.replace(/[^\w.-]+/g, "_") + ".json";
	link.click();
	setTimeout(function () { URL.revokeObjectURL(url); }, 60000);
});
let closed = [];
window.addEventListener("beforeprint", function () {
	closed = Array.from(document.querySelectorAll("details:not([open])"));
	closed.forEach(function (d) { d.open = true; });
});
window.addEventListener("afterprint", function () {
	closed.forEach(function (d) { d.open = false; });
});
