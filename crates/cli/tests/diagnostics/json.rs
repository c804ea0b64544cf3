//! JSON, and the part of JSON Schema that `docs/diagnostics.schema.json` uses; another keyword there is an error.

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    pub fn items(&self) -> Vec<&Json> {
        if let Json::List(items) = self { items.iter().collect() } else { Vec::new() }
    }
}

pub fn parse(text: &str) -> Option<Json> {
    let mut rest = text.trim();
    let value = value(&mut rest)?;
    rest.trim().is_empty().then_some(value)
}

fn eat(rest: &mut &str, start: &str) -> bool {
    *rest = rest.trim_start();
    match rest.strip_prefix(start) {
        Some(behind) => {
            *rest = behind;
            true
        }
        None => false,
    }
}

fn value(rest: &mut &str) -> Option<Json> {
    *rest = rest.trim_start();
    match rest.chars().next()? {
        '{' => {
            eat(rest, "{");
            let mut fields = Vec::new();
            if eat(rest, "}") {
                return Some(Json::Object(fields));
            }
            loop {
                let name = value(rest)?.text()?.to_string();
                eat(rest, ":").then_some(())?;
                fields.push((name, value(rest)?));
                if eat(rest, "}") {
                    return Some(Json::Object(fields));
                }
                eat(rest, ",").then_some(())?;
            }
        }
        '[' => {
            eat(rest, "[");
            let mut items = Vec::new();
            if eat(rest, "]") {
                return Some(Json::List(items));
            }
            loop {
                items.push(value(rest)?);
                if eat(rest, "]") {
                    return Some(Json::List(items));
                }
                eat(rest, ",").then_some(())?;
            }
        }
        '"' => string(rest).map(Json::Text),
        _ if eat(rest, "null") => Some(Json::Null),
        _ if eat(rest, "true") => Some(Json::Bool(true)),
        _ if eat(rest, "false") => Some(Json::Bool(false)),
        _ => {
            let end = rest
                .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
                .unwrap_or(rest.len());
            let number = rest[..end].parse().ok()?;
            *rest = &rest[end..];
            Some(Json::Number(number))
        }
    }
}

fn string(rest: &mut &str) -> Option<String> {
    let mut letters = rest.char_indices().skip(1);
    let mut out = String::new();
    loop {
        match letters.next()? {
            (at, '"') => {
                *rest = &rest[at + 1..];
                return Some(out);
            }
            (_, '\\') => match letters.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'u' => {
                    let digits: String = letters.by_ref().take(4).map(|(_, c)| c).collect();
                    out.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                c @ ('"' | '\\' | '/') => out.push(c),
                _ => return None,
            },
            (_, c) if (c as u32) < 0x20 => return None,
            (_, c) => out.push(c),
        }
    }
}

/// Why a value is not as a schema says.
pub fn fault(root: &Json, schema: &Json, value: &Json) -> Option<String> {
    let Json::Object(keywords) = schema else { return Some("the schema is no object".into()) };
    keywords.iter().find_map(|(keyword, rule)| broken(root, schema, keyword, rule, value))
}

fn broken(root: &Json, schema: &Json, keyword: &str, rule: &Json, value: &Json) -> Option<String> {
    let told = |is_right: bool| (!is_right).then(|| format!("{keyword} {rule:?}: {value:?}"));
    match keyword {
        "$schema" | "$defs" | "title" | "description" => None,
        "$ref" => {
            let path = rule.text()?.strip_prefix("#/")?;
            let target = path.split('/').try_fold(root, |at, key| at.get(key));
            target.map_or(Some(format!("no {path}")), |target| fault(root, target, value))
        }
        "oneOf" => {
            told(rule.items().iter().filter(|choice| fault(root, choice, value).is_none()).count() == 1)
        }
        "const" => told(rule == value),
        "enum" => told(rule.items().contains(&value)),
        "type" => {
            let names: Vec<&Json> = if rule.text().is_some() { vec![rule] } else { rule.items() };
            told(names.iter().any(|name| is_of(name.text().unwrap_or_default(), value)))
        }
        "pattern" => told(value.text().is_none_or(|text| {
            assert_eq!(rule.text(), Some("^E[0-9]{4}$"), "the one pattern of the schema");
            text.len() == 5 && text.starts_with('E') && text[1..].bytes().all(|b| b.is_ascii_digit())
        })),
        "minimum" => told(!matches!((rule, value), (Json::Number(least), Json::Number(n)) if n < least)),
        "required" => rule.items().iter().find_map(|name| {
            let name = name.text()?;
            (matches!(value, Json::Object(_)) && value.get(name).is_none())
                .then(|| format!("{name} is missing"))
        }),
        "additionalProperties" => match value {
            Json::Object(fields) if *rule == Json::Bool(false) => {
                let known = schema.get("properties");
                let other = fields.iter().find(|(name, _)| known.and_then(|known| known.get(name)).is_none());
                other.map(|(name, _)| format!("{name} is not known"))
            }
            _ => None,
        },
        "properties" => match rule {
            Json::Object(rules) => rules
                .iter()
                .find_map(|(name, rule)| value.get(name).and_then(|field| fault(root, rule, field))),
            _ => Some("properties are an object".into()),
        },
        "items" => value.items().into_iter().find_map(|item| fault(root, rule, item)),
        other => Some(format!("the keyword {other} is not known here")),
    }
}

fn is_of(name: &str, value: &Json) -> bool {
    match value {
        Json::Null => name == "null",
        Json::Bool(_) => name == "boolean",
        Json::Number(number) => name == "number" || name == "integer" && number.fract() == 0.0,
        Json::Text(_) => name == "string",
        Json::List(_) => name == "array",
        Json::Object(_) => name == "object",
    }
}
