"use strict";
(function () {
	const bar = document.getElementById("live");
	const pause = 1500, longPause = 10000; // of a run that has ended and may be gone on with
	// What a reader has opened or closed stays so: the details of the old page and the new are matched by their summaries.
	function key(d) { return d.closest("section").id + " " + d.querySelector("summary").textContent; }
	function renew(page) {
		const was = new Map();
		document.querySelectorAll("main details").forEach(function (d) { was.set(key(d), d.open); });
		const next = page.getElementById("main");
		next.querySelectorAll("details").forEach(function (d) { if (was.has(key(d))) { d.open = was.get(key(d)); } });
		const x = window.scrollX, y = window.scrollY;
		document.getElementById("main").replaceWith(document.adoptNode(next));
		window.scrollTo(x, y);
		document.title = page.title;
	}
	async function look() {
		let ended = false;
		try {
			const answer = await fetch("/state", { cache: "no-store" });
			if (!answer.ok) { throw new Error(await answer.text()); }
			const news = await answer.json();
			if (news.state !== bar.dataset.state) {
				const fresh = await fetch("/", { cache: "no-store" });
				if (!fresh.ok) { throw new Error(await fresh.text()); }
				const page = new DOMParser().parseFromString(await fresh.text(), "text/html");
				renew(page);
				bar.dataset.state = page.getElementById("live").dataset.state;
			}
			if (bar.textContent !== news.live) { bar.textContent = news.live; }
			ended = news.ended;
		} catch (err) {
			bar.textContent = "What is below is the last that napistall view said. " + (err instanceof TypeError ? "It does not answer." : err.message);
		}
		setTimeout(look, ended ? longPause : pause);
	}
	setTimeout(look, pause);
})();
