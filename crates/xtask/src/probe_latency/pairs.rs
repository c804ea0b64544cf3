//! Pairs that chance does not bring together, at the least distance: every form of the rarer units before and behind
//! every other form, every form under a guard that was just computed, and matrix products between instructions of every
//! kind. Each line needs the result of the one before, so that nothing can stand between them.

use super::chains::{self, Chain, Random, Values};
use super::units;

const CHAIN: Chain = Chain { tight: true, ..units::CHAIN };

/// Names and texts.
pub fn programs(target: &str, sm: u32) -> Vec<(String, String)> {
    let (unit, plain) = (units::forms(sm), chains::forms(sm));
    let products: Vec<Product> = unit.iter().filter_map(|form| Product::of(form)).collect();
    // Many asynchronous products of several kinds in one program make ptxas 13.0.88 crash.
    let single = |form: &&str| !form.contains("wgmma") && Product::of(form).is_none();
    let rarer: Vec<&str> = unit.into_iter().filter(single).collect();
    let all: Vec<&str> = rarer.iter().chain(&plain).copied().collect();
    let setters: Vec<&str> = all.iter().copied().filter(|form| form.contains('P')).collect();
    let mut programs = Vec::new();
    let mut add = |kind: &str, number: usize, lines: &dyn Fn(&mut Lines)| {
        let text = CHAIN.around(target, number % 3 == 2, |values| {
            let mut made = Lines { values, random: Random::new(number as u64), made: Vec::new(), last: "D" };
            lines(&mut made);
            made.made
        });
        programs.push((format!("{kind}-{number}"), text));
    };
    for (number, one) in rarer.iter().enumerate() {
        add("pair", number, &|lines| all.iter().for_each(|other| lines.pair(one, other)));
    }
    for (number, setter) in setters.iter().enumerate() {
        add("guard", number, &|lines| all.iter().for_each(|form| lines.guarded(setter, form)));
    }
    for (number, product) in products.iter().enumerate() {
        add("product", number, &|lines| {
            // What comes before one product stands behind another.
            for (before, behind) in plain.iter().zip(plain.iter().cycle().skip(7)) {
                lines.product(before, product, behind);
            }
            products.iter().for_each(|other| lines.two_products(product, other));
        });
    }
    programs
}

/// The lines of a program.
struct Lines<'a> {
    values: &'a mut Values,
    random: Random,
    made: Vec<String>,
    /// The form of the last line.
    last: &'a str,
}

impl<'a> Lines<'a> {
    fn pair(&mut self, one: &'a str, other: &'a str) {
        self.add(one);
        self.add(other);
    }

    /// A form that takes what the last one gave: as a value of another kind, where it takes no such.
    fn add(&mut self, form: &'a str) {
        if let Some(bridge) = bridge(self.last, form) {
            self.push(bridge);
        }
        self.push(form);
        self.last = form;
    }

    fn push(&mut self, form: &str) {
        let line = self.values.line(form, &CHAIN, &mut self.random);
        self.made.push(line);
    }

    /// A form under a guard that `setter` has just set. Where it is false, its result is an old value.
    fn guarded(&mut self, setter: &'a str, form: &'a str) {
        if form.contains(['{', '@']) {
            return;
        }
        self.add(setter);
        let mut text = String::new();
        for (letter, old) in [('D', "mov.b32 D,A;"), ('L', "mov.b64 L,X;"), ('P', "mov.pred P,S;")] {
            text += if form.contains(letter) { old } else { "" };
        }
        let guard = self.values.last_predicate();
        for instruction in form.split_terminator(';') {
            text += &format!(" @{guard} {};", instruction.trim_start());
        }
        self.push(&text);
        self.last = form;
    }

    /// A product whose accumulators are results of one form, and of whose results one is an operand of another.
    fn product(&mut self, before: &'a str, product: &Product, behind: &'a str) {
        let (result, source) = product.letters();
        if !before.contains(result) || !behind.contains(source) {
            return;
        }
        if let Some(bridge) = bridge(self.last, before) {
            self.push(bridge);
        }
        for (number, register) in product.results.iter().enumerate() {
            let mut text = before.replace(result, register);
            if number > 0 {
                text = text.replace(source, &product.results[number - 1]);
            }
            self.push(&text);
        }
        self.push(&product.text);
        self.read(product, behind);
    }

    /// Two products with the same accumulators; then the second multiplies what the first gives.
    fn two_products(&mut self, one: &Product, other: &Product) {
        let (_, source) = one.letters();
        if one.letters() == other.letters() {
            let behind = if source == 'A' { "add.s32 D,A,B;" } else { "add.f64 L,X,Y;" };
            for text in [other.text.clone(), other.text.replacen(source, &one.results[0], 1)] {
                self.push(&one.text);
                self.push(&text);
                self.read(other, behind);
            }
        }
    }

    fn read(&mut self, product: &Product, form: &'a str) {
        let (_, source) = product.letters();
        let read = self.random.below(product.results.len() as u64) as usize;
        self.push(&form.replace(source, &product.results[read]));
        self.last = form;
    }
}

/// What stands between two forms, so that the second depends on the first.
fn bridge(first: &str, second: &str) -> Option<&'static str> {
    let [words, longs, predicates] =
        [&['A', 'B', 'C'][..], &['X', 'Y', 'Z'], &['Q', 'S']].map(|letters| second.contains(letters));
    match (first.contains('D'), first.contains('L'), first.contains('P')) {
        (true, _, _) if words => None,
        (_, true, _) if longs => None,
        (_, _, true) if predicates => None,
        (true, _, _) if longs => Some("mov.b64 L,{A,B};"),
        (true, _, _) if predicates => Some("setp.lt.s32 P,A,B;"),
        (_, true, _) if words => Some("mov.b64 {T,D},X;"),
        (_, true, _) if predicates => Some("setp.lt.s64 P,X,Y;"),
        (_, _, true) if words => Some("selp.b32 D,A,B,Q;"),
        (_, _, true) if longs => Some("selp.b64 L,X,Y,Q;"),
        _ => None,
    }
}

/// A matrix product of one warp that adds to its result.
struct Product {
    text: String,
    results: Vec<String>,
}

impl Product {
    /// That of a form, with registers of its own as accumulators.
    fn of(form: &str) -> Option<Product> {
        let text = form.split_inclusive(';').map(str::trim).find(|text| text.starts_with("mma."))?;
        let mut groups = text.split_inclusive('}').map(str::to_string).collect::<Vec<_>>();
        let (_, results) = groups.first()?.split_once('{')?;
        let count = results.split(',').count();
        let file = if results.starts_with('v') { 'v' } else { 'w' };
        let results: Vec<String> = (0..count).map(|number| format!("{file}{number}")).collect();
        for group in [0, 3] {
            let (before, _) = groups.get(group)?.split_once('{')?;
            groups[group] = format!("{before}{{{}}}", results.join(","));
        }
        Some(Product { text: groups.concat(), results })
    }

    /// The letters of results and of operands that have the size of its registers.
    fn letters(&self) -> (char, char) {
        if self.results[0].starts_with('v') { ('L', 'X') } else { ('D', 'A') }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_add_to_their_results() {
        let form = "mov.b32 w4,A; mma.x {w4,w5},{A,B},{C},{A,B},C,0x0; shl.b32 D,w6,3;";
        let product = Product::of(form).unwrap();
        assert_eq!(product.text, "mma.x {w0,w1},{A,B},{C},{w0,w1},C,0x0;");
        assert_eq!(product.letters(), ('D', 'A'));
        assert!(Product::of("add.s32 D,A,B;").is_none());
    }

    #[test]
    fn forms_of_other_kinds_are_joined() {
        assert_eq!(bridge("add.s32 D,A,B;", "abs.s32 D,A;"), None);
        assert_eq!(bridge("add.s32 D,A,B;", "add.f64 L,X,Y;"), Some("mov.b64 L,{A,B};"));
        assert_eq!(bridge("setp.lt.f64 P,X,Y;", "abs.s32 D,A;"), Some("selp.b32 D,A,B,Q;"));
    }

    #[test]
    fn each_line_takes_the_last_value() {
        let programs = programs("sm_90a", 90);
        let text =
            |name: &str| programs.iter().find(|(known, _)| known == name).map(|(_, text)| text).unwrap();
        let lines: Vec<&str> = text("guard-0").lines().filter(|line| line.starts_with("  ")).collect();
        let guarded = lines.iter().filter(|line| line.contains(" @p"));
        assert!(guarded.clone().count() > 100);
        assert!(text("product-0").contains("m16n8k8"));
    }
}
