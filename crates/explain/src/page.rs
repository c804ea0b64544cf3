//! The page: the renderer with one document inside, in one file that asks for no other.

const HTML: &str = include_str!("../page/explain.html");
const STYLE: &str = include_str!("../page/style.css");

/// The modules of the renderer, in the order in which they build on each other.
const MODULES: [&str; 5] = [
    include_str!("../page/model.js"),
    include_str!("../page/words.js"),
    include_str!("../page/list.js"),
    include_str!("../page/plots.js"),
    include_str!("../page/view.js"),
];

/// What starts it.
const START: &str = include_str!("../page/start.js");

/// The renderer as one script, without what starts it: it declares `mount`.
pub fn script() -> String {
    let lines = MODULES.iter().flat_map(|module| module.lines());
    let mut script = String::new();
    for line in lines.filter(|line| !line.starts_with("import ")) {
        script += line.strip_prefix("export ").unwrap_or(line);
        script.push('\n');
    }
    script
}

/// The styles.
pub fn style() -> &'static str {
    STYLE
}

/// The page of a document.
pub fn page(title: &str, json: &str) -> String {
    // Nothing in the document may end the element that holds it.
    let json = json.replace('<', "\\u003c");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    HTML.replacen("{{title}}", &title, 1)
        .replacen("{{style}}", STYLE, 1)
        .replacen("{{script}}", &format!("{}{START}", script()), 1)
        .replacen("{{document}}", &json, 1)
}
