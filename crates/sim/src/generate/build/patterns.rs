//! What programs do that exchange values between threads: single accesses, and the patterns of warp-synchronous code.
//!
//! Only the accesses are named here. The order among them is the printer's: it puts an ordering operation where one is
//! needed, and nowhere else.

use super::super::exchange::{Access, Action, Map, ORDERS};
use super::super::{Choice, Statement, Style, Trips};
use super::{Builder, DEPTH, LOOP_DEPTH};

/// Regions by number: cells of words of a warp, and of all others that a pattern can use.
const WORDS: [u8; 4] = [0, 5, 3, 8];
const ALTERNATING: [u8; 3] = [2, 4, 6];

impl Builder {
    /// One statement, or those of a pattern.
    pub fn exchange(&mut self, depth: u8, loops: u8, block: &mut Vec<Statement>) {
        let nested = depth < DEPTH;
        match self.random.below(100) {
            0..40 => {
                let mut access = Access::new(&mut self.random);
                access.guard = if self.random.chance(15) { Some(self.guard()) } else { None };
                block.push(Statement::Access(access));
            }
            40..52 => self.pattern(loops, block),
            52..60 if nested => {
                let bit = self.random.below(5) as u8;
                let then = self.inner(depth, loops);
                let otherwise = if self.random.chance(70) { self.inner(depth, loops) } else { Vec::new() };
                block.push(Statement::Split { bit, then, otherwise });
            }
            60..68 if nested && loops < LOOP_DEPTH => {
                let (style, trips) = self.uniform_loop(loops);
                block.push(Statement::Loop { style, trips, body: self.inner(depth, loops + 1) });
            }
            _ => block.push(self.statement(depth, loops)),
        }
    }

    /// A loop in so many others that all threads run as often as each other.
    fn uniform_loop(&mut self, loops: u8) -> (Style, Trips) {
        let style = self.random.pick(&[Style::Bottom, Style::Top, Style::Down]);
        let trips = match self.random.below(3) {
            _ if loops > 0 => Trips::Constant(1 + self.random.below(self.most_trips(loops)) as u8),
            0 => Trips::Parameter(self.random.below(8) as u8),
            _ => Trips::Constant(1 + self.random.below(6) as u8),
        };
        (style, trips)
    }

    fn pattern(&mut self, loops: u8, block: &mut Vec<Statement>) {
        let region = self.random.pick(&WORDS);
        let (value, other) = (self.random.below(8) as u8, self.random.below(8) as u8);
        let order = self.random.below(ORDERS) as u8;
        let mut access = Access { region, order, shape: 0, at: 0, ..Access::new(&mut self.random) };
        access.guard = None;
        access.always = false;
        if access.qualifier > 1 {
            access.qualifier = 0;
        }
        let load = |map: Map, register: u8| {
            Statement::Access(Access { action: Action::Load, map, register, ..access })
        };
        let store = |map: Map, register: u8| {
            Statement::Access(Access { action: Action::Store, map, register, ..access })
        };
        let own = Map::Shift(0);
        match self.random.below(6) {
            // Sums of halves, or of all before.
            0 | 1 => {
                let sign = self.random.pick(&[1, -1]);
                let first = self.random.below(3) as u32;
                block.push(store(own, value));
                for step in first..5 {
                    let by = if sign > 0 { 16 >> step } else { 1 << step };
                    let by = if region == 8 { by.min(8) } else { by };
                    block.extend([load(Map::Shift(sign * by), other), add(value, value, other)]);
                    block.push(store(own, value));
                }
                block.push(load(Map::Fixed(0), other));
            }
            // Neighbours, again and again.
            2 if loops < LOOP_DEPTH => {
                let (style, trips) = self.uniform_loop(loops);
                let mut body = vec![load(Map::Shift(-1), other), add(value, value, other)];
                body.extend([load(Map::Shift(1), other), add(value, value, other), store(own, value)]);
                block.push(store(own, value));
                block.push(Statement::Loop { style, trips, body });
            }
            // Two buffers, one order for each iteration.
            3 | 4 if loops < LOOP_DEPTH => {
                access.region = self.random.pick(&ALTERNATING);
                let (style, trips) = self.uniform_loop(loops);
                let map = self.random.pick(&[Map::Shift(1), Map::Xor(3), Map::Rotate(7), Map::Reverse]);
                let put =
                    Access { action: Action::Store, map: own, register: value, field: 0, form: 0, ..access };
                let get = Access { action: Action::Load, map, register: other, field: 0, ..access };
                let body = vec![Statement::Access(put), Statement::Access(get), add(value, value, other)];
                block.push(Statement::Loop { style, trips, body });
            }
            // Each thread gets another's value.
            _ => {
                let maps = [own, Map::Xor(1), Map::Xor(16), Map::Rotate(1), Map::Reverse, Map::Multiply(5)];
                let (to, from) = (self.random.pick(&maps), self.random.pick(&maps));
                block.extend([store(to, value), load(from, other), store(to, other)]);
            }
        }
    }
}

/// `add.u32`: the first row of the table.
fn add(result: u8, a: u8, b: u8) -> Statement {
    let choices = vec![Choice::Text(1), Choice::Register(result), Choice::Register(a), Choice::Register(b)];
    Statement::Row { guard: None, template: 0, choices }
}
