
const explained = JSON.parse(document.getElementById("document").textContent);
window.explain = mount(document.getElementById("app"), explained);
