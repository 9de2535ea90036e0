// Searches a built site with its own script, as a browser does: node search_site.cjs SITE, questions on stdin as JSON.
const fs = require("fs");
const vm = require("vm");

const site = process.argv[2];
const folder = `${site}/assets/javascripts/workers`;
const name = fs.readdirSync(folder).find((each) => /^search\..*\.js$/.test(each));
const index = JSON.parse(fs.readFileSync(`${site}/search/search_index.json`, "utf8"));
let told, answered;
Object.assign(globalThis, {
    self: globalThis,
    location: { href: `http://site/assets/javascripts/workers/${name}` },
    importScripts: () => {},
    addEventListener: (kind, listener) => { if (kind === "message") told = listener; },
    postMessage: (message) => answered(message),
});
vm.runInThisContext(fs.readFileSync(`${folder}/${name}`, "utf8"));
const ask = (type, data) => new Promise((done) => { answered = done; told({ data: { type, data } }); });

(async () => {
    await ask(0, { config: index.config, docs: index.docs, options: { suggest: false } });
    const pages = {};
    for (const words of JSON.parse(fs.readFileSync(0, "utf8"))) {
        const { data } = await ask(2, words.replace(/[^\w]+/g, " "));
        pages[words] = [...new Set(data.items.flat().map((each) => each.location.split("#")[0].replace(/\/$/, "")))];
    }
    process.stdout.write(JSON.stringify(pages));
})();
