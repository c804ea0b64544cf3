//! What is meant on the command line: the word, and the option, value, machine, pass or command that is nearest to it.

use crate::messages::catalog::Known;
use crate::options::{self, OPTIONS, Row};
use crate::tool;
use ptx::Advice;
use ptx::advice::nearest;
use ptx::diag::Span;

pub fn advice(message: &str, known: Option<&Known>, command: &str) -> Advice {
    let mut advice = Advice::default();
    let Some(known) = known else { return advice };
    let word = |index: usize| known.words.get(index).map_or("", String::as_str);
    match known.code {
        "E0901" => unknown_option(word(0), command, &mut advice),
        "E0902" | "E0903" | "E0910" => {
            let option = word(0).trim_start_matches('-');
            advice.place = place(command, |word| names(word, option));
            if let Some(row) = row(option) {
                advice.help.extend(usage(row));
            }
        }
        "E0904" => wrong_value(known, message, command, &mut advice),
        "E0905" => missing_input(word(0), command, &mut advice),
        "E0906" => advice.place = place(command, |other| other.ends_with(word(0))),
        "E0907" => {
            let name = word(0);
            advice.place = place(command, |other| other.contains(name));
            let passes: Vec<&str> = sassafras::pass_names().collect();
            advice.help.extend(nearest(name, passes).map(|near| format!("did you mean `{near}`?")));
        }
        "E0915" => {
            advice.place =
                place(command, |other| other == word(0) || other.ends_with(&format!("={}", word(0))))
        }
        "E0908" => {
            let option = word(1).trim_matches(['\'', '-']).to_string();
            advice.place = place(command, |other| names(other, &option));
        }
        _ => {}
    }
    advice
}

/// The first word of the command line that is meant; the command itself is none.
fn place(command: &str, is_meant: impl Fn(&str) -> bool) -> Option<Span> {
    let mut at = command.find(' ')? + 1;
    for word in command[at..].split(' ') {
        if is_meant(word) {
            return Some(Span::new(at, at + word.len()));
        }
        at += word.len() + 1;
    }
    None
}

/// Is this word the option, by its long or its short name?
fn names(word: &str, option: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    let both = row(option).map(|row| [row.long, row.short]);
    name.starts_with('-')
        && (name.trim_start_matches('-') == option
            || both.is_some_and(|both| both.contains(&name.trim_start_matches('-'))))
}

fn row(name: &str) -> Option<&'static Row> {
    OPTIONS.iter().find(|row| row.long == name || row.short == name)
}

/// How an option is written.
fn spelled(row: &Row) -> String {
    match row.short {
        "" => format!("`--{}`", row.long),
        short => format!("`-{short}` or `--{}`", row.long),
    }
}

fn usage(row: &Row) -> Option<String> {
    let value = if row.value.is_empty() { String::new() } else { format!("={}", row.value) };
    Some(format!("it is called as `--{}{value}`: {}", row.long, row.help)).filter(|_| !row.help.is_empty())
}

fn unknown_option(name: &str, command: &str, advice: &mut Advice) {
    let given = name.trim_start_matches('-');
    advice.place = place(command, |word| word.trim_start_matches('-').split('=').next() == Some(given));
    if let Some(row) = row(given) {
        advice.help.push(format!("long names have two dashes, short ones have one: {}", spelled(row)));
        return;
    }
    let rows = || OPTIONS.iter().filter(|row| row.group != options::Group::Hidden);
    let all = rows().flat_map(|row| [row.long, row.short]);
    let near = nearest(given, all)
        .or_else(|| rows().map(|row| row.long).find(|long| !given.is_empty() && long.starts_with(given)));
    if let Some(row) = near.and_then(row) {
        advice.help.push(format!("did you mean {}?", spelled(row)));
    }
}

fn wrong_value(known: &Known, message: &str, command: &str, advice: &mut Advice) {
    let words = &known.words;
    let value = words.first().map_or("", String::as_str).trim_matches('\'');
    let is_meant = |word: &str| {
        word == value
            || word
                .split_once('=')
                .is_some_and(|(_, given)| given == value || given.split(',').any(|part| part == value))
    };
    // Which option it is, the message says, or the word that holds the value.
    let named = words.iter().skip(1).find_map(|name| row(name.trim_matches('\'').trim_start_matches('-')));
    advice.place = place(command, |word| !value.is_empty() && is_meant(word));
    advice.place = advice.place.or_else(|| {
        words
            .iter()
            .find_map(|value| place(command, |word| !value.is_empty() && word.ends_with(value.as_str())))
    });
    let before = |span: Span| {
        let text = &command[span.start as usize..span.end as usize];
        let option = match text.split_once('=') {
            Some((option, _)) => option,
            None => command[..span.start as usize].trim_end().rsplit(' ').next().unwrap_or_default(),
        };
        row(option.trim_start_matches('-'))
    };
    let Some(row) = named.or_else(|| advice.place.and_then(before)) else { return };
    let allowed = row.allowed();
    let whole = || allowed.iter().find(|name| name.strip_prefix("sm_") == Some(value)).map(String::as_str);
    if let Some(near) = whole().or_else(|| nearest(value, allowed.iter().map(String::as_str))) {
        advice.help.push(format!("did you mean `{near}`?"));
    }
    match allowed.len() {
        0 if message.contains("number") => advice.help.extend(usage(row)),
        0 => advice.help.extend(usage(row)),
        1..=8 => advice.help.push(format!("`--{}` takes {}", row.long, allowed.join(", "))),
        _ => {
            let machines: Vec<&String> = allowed.iter().filter(|name| name.starts_with("sm_")).collect();
            if row.id == options::Id::Arch && advice.help.is_empty() {
                let list: Vec<&str> = machines.iter().map(|name| name.as_str()).collect();
                advice.help.push(format!("machines are {}", list.join(", ")));
            }
        }
    }
}

fn missing_input(name: &str, command: &str, advice: &mut Advice) {
    advice.place = place(command, |word| word == name);
    let is_first =
        advice.place.is_some_and(|span| command.find(' ').is_some_and(|at| span.start as usize == at + 1));
    let tools = tool::NAMES.iter().copied();
    if let Some(near) = nearest(name, tools).filter(|_| is_first && !name.contains(['/', '.'])) {
        advice.help.push(format!("did you mean the command `{near}`?"));
        return;
    }
    let path = std::path::Path::new(name);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        advice.help.push(format!("there is no folder `{}`", folder.display()));
        return;
    }
    let Ok(files) = std::fs::read_dir(folder.unwrap_or(std::path::Path::new("."))) else { return };
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.ok()?.file_name().to_string_lossy().into_owned())).collect();
    names.sort();
    let wanted = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(near) = nearest(&wanted, names.iter().map(String::as_str)) {
        advice.help.push(format!(
            "did you mean `{}`?",
            folder.map_or(near.into(), |folder| folder.join(near).display().to_string())
        ));
    }
}
