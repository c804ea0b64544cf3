// Text to HTML: words in colours, and what is searched for.

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

export function escape(text) {
    return String(text).replace(/[&<>"]/g, (c) => ESCAPES[c]);
}

// In each, the name of the first group that matches is the class of the word.
const PTX =
    /(?<comment>\/\/.*|\/\*.*?(?:\*\/|$))|(?<string>"[^"]*")|(?<register>%[\w$.]+)|(?<directive>(?<![\w\]])\.[a-z_]\w*)|(?<number>\b0[xXfFdD][0-9a-fA-F]+U?\b|(?<![\w$.])-?\d[\d.]*(?:e[-+]?\d+)?\b)|(?<label>\$L?\w+|^\s*\w+(?=:))|(?<opcode>(?<=^\s*(?:@!?%\w+\s+)?|\{\s*)[a-z]\w*(?:[.:]+\w+)*)/g;
const SASS =
    /(?<comment>;.*|\/\*.*?\*\/)|(?<guard>@!?U?P\d|@!?UPT|@!?PT)|(?<constant>(?<!\w)cx?\[[^\]]*\](?:\[[^\]]*\])?)|(?<register>\b(?:UR\d+|URZ|R\d+|RZ|UP\d|UPT|P\d|PT|B\d+|SB\d|SR_[\w.]+)\b)|(?<number>(?<![\w.])-?0x[0-9a-f]+\b|(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?\b)|(?<opcode>\b[A-Z][A-Z0-9]*[A-Z0-9](?:\.[\w]+)*)/g;
const IR =
    /(?<comment>;.*|\/\*.*?\*\/)|(?<guard>@!?v\d+(?:\[[^\]]*\])*|@!?U?P\d)|(?<label>\bb\d+\b)|(?<register>\bv\d+(?:\[[\d.]+\])?|\b(?:UR\d+|URZ|R\d+|RZ|UP\d|UPT|P\d|PT|B\d+)\b)|(?<type>:(?:R|UR|P|UP|B)\d*\b)|(?<constant>(?<!\w)c\[[^\]]*\]\[[^\]]*\])|(?<number>(?<![\w.])-?0x[0-9a-f]+\b|(?<![\w.:])-?\d+\b)|(?<opcode>\b(?:[A-Z][A-Za-z0-9]+(?:\.[\w]+)*|jump|(?:branch|switch)(?:\.uniform)?|exit|return|function|machine)\b)/g;
const SOURCE =
    /(?<comment>\/\/.*|#.*)|(?<string>"[^"]*"|'[^']*')|(?<opcode>\b(?:for|while|if|else|return|const|int|float|double|unsigned|void|auto|template|typename|__\w+__|def|in|import|struct|bool|char|long|short)\b)|(?<number>\b\d[\w.]*\b)/g;
const LANGUAGES = { ptx: PTX, sass: SASS, ir: IR, source: SOURCE };

/** A line of a language in colours; `query` is marked, in lower case. */
export function highlight(text, language, query) {
    const marks = places(text, query);
    let html = "";
    let at = 0;
    for (const match of text.matchAll(LANGUAGES[language])) {
        const name = Object.keys(match.groups).find((group) => match.groups[group] !== undefined);
        html += piece(text, at, match.index, "", marks);
        at = match.index + match[0].length;
        html += piece(text, match.index, at, name, marks);
    }
    return html + piece(text, at, text.length, "", marks);
}

/** Where `query` is in a text. */
function places(text, query) {
    const marks = [];
    if (!query) return marks;
    const lower = text.toLowerCase();
    for (let at = lower.indexOf(query); at >= 0; at = lower.indexOf(query, at + query.length)) {
        marks.push([at, at + query.length]);
    }
    return marks;
}

function piece(text, from, to, name, marks) {
    if (from >= to) return "";
    let html = "";
    let at = from;
    for (const [start, end] of marks) {
        const [a, b] = [Math.max(start, from), Math.min(end, to)];
        if (a >= b) continue;
        html += `${escape(text.slice(at, a))}<mark>${escape(text.slice(a, b))}</mark>`;
        at = b;
    }
    html += escape(text.slice(at, to));
    return name ? `<i class="w-${name}">${html}</i>` : html;
}
