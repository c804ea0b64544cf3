//! Kernels with more values alive at once than a thread has registers.
//!
//! Every kernel `pressure(.param .u64 memory)` loads all its values from the thread's own bytes, mixes each of them into
//! one word, and then stores each together with that word: none can be forgotten, or loaded later than the mixing.
//! What it mixes in between is a matter of the [`Shape`].

use random::Random;
use std::fmt::Write;

/// The kernel's name.
pub const NAME: &str = "pressure";
/// Threads of its block.
pub const THREADS: u32 = 32;

/// What the values are, and what stands around the mixing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Words.
    Words,
    /// 64-bit values.
    Pairs,
    /// Four words side by side, loaded and stored at once.
    Quads,
    /// Words, and a predicate for each.
    Predicates,
    /// Words that change in a loop.
    Loop,
    /// Words, and calls between them.
    Calls,
    /// Words, and branches within branches that threads take differently.
    Branches,
    /// Some of all.
    Mixed(u64),
}

impl Shape {
    /// All but the mixed ones.
    pub const PLAIN: [Shape; 7] = {
        use Shape::*;
        [Words, Pairs, Quads, Predicates, Loop, Calls, Branches]
    };

    /// In lower case.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A value of the kernel, and its first word in memory.
#[derive(Clone, Copy)]
enum Item {
    Word(usize),
    Pair(usize),
    Quad(usize),
    Predicate(usize),
}

/// Bytes that each thread has.
pub fn bytes_of_thread(words: usize) -> usize {
    4 * words.next_multiple_of(4)
}

/// What a kernel of so many words starts with.
pub fn image(words: usize) -> Vec<u8> {
    let mut random = Random::new(words as u64);
    (0..THREADS as usize * bytes_of_thread(words)).map(|_| random.next() as u8).collect()
}

/// A module with a kernel of so many words.
pub fn module(shape: Shape, words: usize) -> String {
    let seed = if let Shape::Mixed(seed) = shape { seed } else { 0 };
    let mut text = Text { out: String::new(), random: Random::new(seed), labels: 0 };
    let items = text.items(shape, words);
    text.head(words);
    items.iter().for_each(|item| text.load(*item));
    text.around(shape, &items);
    items.iter().for_each(|item| text.store(*item));
    text.line("ret;\n}");
    text.out
}

struct Text {
    out: String,
    random: Random,
    labels: usize,
}

impl Text {
    fn line(&mut self, line: impl std::fmt::Display) {
        // Writing to a string never fails.
        let _ = writeln!(self.out, "{line}");
    }

    fn items(&mut self, shape: Shape, words: usize) -> Vec<Item> {
        let mut items = Vec::new();
        let mut next = 0;
        while next < words {
            let kind = match shape {
                Shape::Pairs => 1,
                Shape::Quads => 2,
                Shape::Predicates => 3,
                Shape::Mixed(_) => self.random.below(4),
                _ => 0,
            };
            let (item, size) = match kind {
                1 => (Item::Pair(next.next_multiple_of(2)), 2),
                2 => (Item::Quad(next.next_multiple_of(4)), 4),
                3 => (Item::Predicate(next), 1),
                _ => (Item::Word(next), 1),
            };
            next = next.next_multiple_of(size) + size;
            if next <= words {
                items.push(item);
            }
        }
        items
    }

    fn head(&mut self, words: usize) {
        let bytes = bytes_of_thread(words);
        self.line(format_args!(
            ".version 8.3\n.target sm_90\n.address_size 64\n\
             .func (.param .b32 out) far(.param .b32 a, .param .b64 b)\n{{\n\
             .reg .b32 %a, %c;\n.reg .b64 %b;\n\
             ld.param.b32 %a, [a];\nld.param.b64 %b, [b];\ncvt.u32.u64 %c, %b;\nmad.lo.u32 %a, %a, 5, %c;\n\
             st.param.b32 [out], %a;\nret;\n}}\n\
             .visible .entry {NAME}(.param .u64 memory)\n{{\n\
             .reg .b64 %m, %t, %d<{words}>;\n.reg .b32 %i, %x, %y, %r<{words}>;\n.reg .pred %q, %p<{words}>;\n\
             ld.param.u64 %m, [memory];\nmov.u32 %i, %tid.x;\nmul.wide.u32 %t, %i, {bytes};\n\
             add.s64 %m, %m, %t;\nmov.u32 %x, 1;"
        ));
    }

    fn load(&mut self, item: Item) {
        match item {
            Item::Word(n) => self.line(format_args!("ld.global.u32 %r{n}, [%m+{}];", 4 * n)),
            Item::Pair(n) => self.line(format_args!("ld.global.u64 %d{n}, [%m+{}];", 4 * n)),
            Item::Quad(n) => {
                let [a, b, c] = [n + 1, n + 2, n + 3];
                self.line(format_args!("ld.global.v4.u32 {{%r{n}, %r{a}, %r{b}, %r{c}}}, [%m+{}];", 4 * n));
            }
            Item::Predicate(n) => {
                self.line(format_args!("ld.global.u32 %r{n}, [%m+{}];", 4 * n));
                self.line(format_args!("setp.lt.s32 %p{n}, %r{n}, {};", 1000 * n));
            }
        }
    }

    /// Stores an item together with what all were mixed to.
    fn store(&mut self, item: Item) {
        match item {
            Item::Word(n) => {
                self.line(format_args!("add.u32 %r{n}, %r{n}, %x;\nst.global.u32 [%m+{}], %r{n};", 4 * n));
            }
            Item::Pair(n) => {
                self.line("cvt.u64.u32 %t, %x;");
                self.line(format_args!("add.u64 %d{n}, %d{n}, %t;\nst.global.u64 [%m+{}], %d{n};", 4 * n));
            }
            Item::Quad(n) => {
                let [a, b, c] = [n + 1, n + 2, n + 3];
                [n, a, b, c].iter().for_each(|r| self.line(format_args!("xor.b32 %r{r}, %r{r}, %x;")));
                self.line(format_args!("st.global.v4.u32 [%m+{}], {{%r{c}, %r{n}, %r{a}, %r{b}}};", 4 * n));
            }
            Item::Predicate(n) => {
                self.line(format_args!(
                    "selp.b32 %r{n}, %x, %r{n}, %p{n};\nst.global.u32 [%m+{}], %r{n};",
                    4 * n
                ));
            }
        }
    }

    /// The mixing, and what stands around it.
    fn around(&mut self, shape: Shape, items: &[Item]) {
        let kind = match shape {
            Shape::Mixed(_) => self.random.pick(&[Shape::Words, Shape::Loop, Shape::Calls, Shape::Branches]),
            plain => plain,
        };
        match kind {
            Shape::Loop => {
                self.line("mov.u32 %i, 0;\nAGAIN:");
                self.mix(items, true);
                self.line("add.u32 %i, %i, 1;\nsetp.lt.u32 %q, %i, 3;\n@%q bra AGAIN;");
            }
            Shape::Calls => {
                let (first, second) = items.split_at(items.len() / 2);
                self.mix(first, false);
                self.call();
                self.mix(second, false);
                self.call();
            }
            Shape::Branches => self.branch(items, 0),
            _ => self.mix(items, false),
        }
    }

    fn call(&mut self) {
        self.line(
            "cvt.u64.u32 %t, %x;\n{\n.param .b32 a;\n.param .b64 b;\n.param .b32 out;\n\
             st.param.b32 [a], %x;\nst.param.b64 [b], %t;\ncall (out), far, (a, b);\nld.param.b32 %x, [out];\n}",
        );
    }

    /// Some threads mix these items, some those, and then all mix all of them.
    fn branch(&mut self, items: &[Item], depth: u32) {
        if items.len() < 8 || depth > 20 {
            return self.mix(items, false);
        }
        let label = self.labels;
        self.labels += 1;
        let (first, second) = items.split_at(items.len() / 8);
        self.line(format_args!(
            "shr.u32 %y, %x, {};\nand.b32 %y, %y, 1;\nsetp.eq.u32 %q, %y, 0;",
            depth % 31
        ));
        self.line(format_args!("@%q bra ELSE{label};"));
        self.mix(first, true);
        self.branch(second, depth + 1);
        self.line(format_args!("bra JOIN{label};\nELSE{label}:"));
        self.mix(first, false);
        self.line(format_args!("JOIN{label}:"));
        self.mix(first, false);
        if depth == 0 {
            self.mix(items, false);
        }
    }

    /// Each item becomes part of `%x`, and some of them change.
    fn mix(&mut self, items: &[Item], change: bool) {
        for (i, item) in items.iter().enumerate() {
            let other = items[(i * 37 + 11) % items.len()];
            for item in [*item, other] {
                self.take(item);
            }
            if change {
                self.give(*item);
            }
        }
    }

    fn take(&mut self, item: Item) {
        match item {
            Item::Word(n) => self.line(format_args!("mad.lo.u32 %x, %x, 7, %r{n};")),
            Item::Pair(n) => self.line(format_args!(
                "cvt.u64.u32 %t, %x;\nmad.lo.u64 %t, %t, 7, %d{n};\nmov.b64 {{%x, %y}}, %t;\nxor.b32 %x, %x, %y;"
            )),
            Item::Quad(n) => {
                for word in n..n + 4 {
                    self.line(format_args!("mad.lo.u32 %x, %x, 7, %r{word};"));
                }
            }
            Item::Predicate(n) => self.line(format_args!("@%p{n} mad.lo.u32 %x, %x, 7, %r{n};")),
        }
    }

    fn give(&mut self, item: Item) {
        match item {
            Item::Word(n) => self.line(format_args!("xor.b32 %r{n}, %r{n}, %x;")),
            Item::Pair(n) => self.line(format_args!("cvt.u64.u32 %t, %x;\nxor.b64 %d{n}, %d{n}, %t;")),
            Item::Quad(n) => self.line(format_args!("add.u32 %r{}, %r{n}, %x;", n + 3)),
            Item::Predicate(n) => self.line(format_args!("setp.lt.s32 %p{n}, %x, {};", 1000 * n)),
        }
    }
}
