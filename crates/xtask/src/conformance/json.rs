//! Reads the JSON of the data files: objects, arrays and strings. Other values are errors, for no data file
//! has them. That is less than what a crate for it would bring; JSON is written by `cubin::json`.

use crate::Result;

#[derive(Debug, PartialEq)]
pub enum Json {
    String(String),
    Array(Vec<Json>),
    /// In the order of the file.
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn parse(text: &str) -> Result<Json> {
        let mut reader = Reader { rest: text };
        let value = reader.value()?;
        if reader.peek().is_some() { Err(reader.unexpected()) } else { Ok(value) }
    }

    /// The member `key` of an object.
    pub fn get(&self, key: &str) -> Result<&Json> {
        let Json::Object(members) = self else {
            return Err(format!("an object with '{key}' expected").into());
        };
        let member = members.iter().find(|(name, _)| name == key);
        member.map(|(_, value)| value).ok_or_else(|| format!("member '{key}' is missing").into())
    }

    pub fn str(&self) -> Result<&str> {
        if let Json::String(text) = self { Ok(text) } else { Err("a string expected".into()) }
    }

    pub fn array(&self) -> Result<&[Json]> {
        if let Json::Array(items) = self { Ok(items) } else { Err("an array expected".into()) }
    }

    pub fn object(&self) -> Result<&[(String, Json)]> {
        if let Json::Object(members) = self { Ok(members) } else { Err("an object expected".into()) }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Json> {
        match self.peek() {
            Some('"') => Ok(Json::String(self.string()?)),
            Some('[') => Ok(Json::Array(self.list('[', ']', Self::value)?)),
            Some('{') => Ok(Json::Object(self.list('{', '}', Self::member)?)),
            _ => Err(self.unexpected()),
        }
    }

    fn member(&mut self) -> Result<(String, Json)> {
        let name = self.string()?;
        self.expect(':')?;
        Ok((name, self.value()?))
    }

    fn list<T>(&mut self, open: char, close: char, item: fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        self.expect(open)?;
        if self.peek() != Some(close) {
            items.push(item(self)?);
            while self.peek() == Some(',') {
                self.expect(',')?;
                items.push(item(self)?);
            }
        }
        self.expect(close)?;
        Ok(items)
    }

    fn string(&mut self) -> Result<String> {
        self.expect('"')?;
        let mut text = String::new();
        loop {
            match self.next()? {
                '"' => return Ok(text),
                '\\' => text.push(self.escape()?),
                other => text.push(other),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        match self.next()? {
            'n' => Ok('\n'),
            't' => Ok('\t'),
            'r' => Ok('\r'),
            same @ ('"' | '\\' | '/') => Ok(same),
            'u' => {
                let digits = self.rest.get(..4).ok_or("a short \\u escape")?;
                self.rest = &self.rest[4..];
                char::from_u32(u32::from_str_radix(digits, 16)?).ok_or_else(|| "half a character".into())
            }
            other => Err(format!("escape \\{other} is not known").into()),
        }
    }

    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn next(&mut self) -> Result<char> {
        let next = self.rest.chars().next().ok_or("unexpected end of the JSON text")?;
        self.rest = &self.rest[next.len_utf8()..];
        Ok(next)
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        if self.peek() != Some(wanted) {
            return Err(self.unexpected());
        }
        self.next().map(drop)
    }

    fn unexpected(&self) -> crate::Error {
        let near: String = self.rest.chars().take(20).collect();
        format!("unexpected JSON text near '{near}'").into()
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn reads_what_the_data_files_hold() {
        let json =
            Json::parse(r#" {"key": "a\"\\b\u00e9", "list": ["x", "y"], "none": [], "map": {}} "#).unwrap();
        assert_eq!(json.get("key").unwrap().str().unwrap(), "a\"\\bé");
        assert_eq!(json.get("list").unwrap().array().unwrap().len(), 2);
        assert!(json.get("none").unwrap().array().unwrap().is_empty());
        assert!(json.get("map").unwrap().object().unwrap().is_empty());
        assert!(json.get("other").is_err());
    }

    #[test]
    fn refuses_the_rest() {
        for bad in ["", "{", "[\"a\",]", "\"a", "\"\\x\"", "\"\\u12\"", "1", "\"a\" \"b\"", "{\"a\" \"b\"}"] {
            assert!(Json::parse(bad).is_err(), "{bad}");
        }
    }
}
