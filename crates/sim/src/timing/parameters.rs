//! The numbers of the model, with their sources: one table, `parameters.tab`.

use std::fmt;

/// The table that comes with the program.
pub const TABLE: &str = include_str!("parameters.tab");

/// Where a number is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The vendor says it.
    Spec,
    /// This project measured it on an H200.
    H200,
    /// ptxas's code keeps to it.
    Probe,
    /// Others published it.
    Paper,
    /// A stated default.
    Unknown,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The number.
    pub value: f64,
    /// What it counts.
    pub unit: String,
    /// What kind of source it has.
    pub source: Source,
    /// The source itself.
    pub from: String,
}

/// Why a table can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    /// The line, from 1; 0: the whole.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for TableError {}

/// The lines of a table.
pub fn rows(text: &str) -> Result<Vec<Row>, TableError> {
    let mut rows: Vec<Row> = Vec::new();
    for (text, line) in text.lines().zip(1..) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let fail = |what: &str| TableError { line, what: what.to_string() };
        let mut words = text.split_whitespace();
        let mut next = |what: &str| words.next().ok_or_else(|| fail(&format!("no {what}")));
        let (name, value, unit) = (next("name")?, next("value")?, next("unit")?);
        let source = match next("source")? {
            "spec" => Source::Spec,
            "h200" => Source::H200,
            "probe" => Source::Probe,
            "paper" => Source::Paper,
            "unknown" => Source::Unknown,
            _ => return Err(fail("the source is none of spec, h200, probe, paper, unknown")),
        };
        let value: f64 = value.parse().map_err(|_| fail("the value is no number"))?;
        if !(value.is_finite() && value >= 0.0) {
            return Err(fail("the value is negative or not finite"));
        }
        let from: Vec<&str> = words.collect();
        if rows.iter().any(|row| row.name == name) {
            return Err(fail("the name occurs twice"));
        }
        rows.push(Row { name: name.into(), value, unit: unit.into(), source, from: from.join(" ") });
    }
    Ok(rows)
}

/// Fields by name, each a line of the table.
macro_rules! parameters {
    ($($name:ident)*) => {
        /// The numbers of the model; `parameters.tab` says what each is.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the table explains them")]
        pub struct Parameters {
            $(pub $name: f64,)*
        }

        impl Parameters {
            /// Reads a whole table.
            pub fn read(text: &str) -> Result<Parameters, TableError> {
                let rows = rows(text)?;
                let known = [$(stringify!($name)),*];
                if let Some(row) = rows.iter().find(|row| !known.contains(&row.name.as_str())) {
                    return Err(TableError { line: 0, what: format!("there is no parameter {}", row.name) });
                }
                let value = |name: &str| {
                    let row = rows.iter().find(|row| row.name == name);
                    let missing = || TableError { line: 0, what: format!("{name} is missing") };
                    row.map(|row| row.value).ok_or_else(missing)
                };
                let read = Parameters { $($name: value(stringify!($name))?,)* };
                read.checked()
            }
        }
    };
}

parameters! {
    sms clock_mhz dram_bytes_per_second dram_efficiency l2_bytes l2_bytes_per_clock launch_cycles
    block_launch_cycles block_start_interval shared_bytes_per_sm l1_bytes
    branch_taken l0_instructions l1i_instructions l0_miss_cycles l1i_miss_cycles fetch_line_interval fetch_ahead
    operand_slack constant_miss_cycles constant_line_bytes constant_lines
    interval_alu interval_fma interval_half interval_wide interval_double interval_xu interval_uniform
    interval_mma_wide interval_mma_narrow interval_mma_late wgmma_columns_per_cycle wgmma_latency wgmma_queue
    latency_shared latency_l1 latency_l2 latency_dram latency_shuffle latency_xu latency_special latency_constant
    latency_atomic_shared latency_atomic latency_texture latency_reduce latency_transpose latency_mbarrier
    latency_barrier latency_cluster_barrier latency_membar latency_bulk latency_mma_late latency_other read_cycles
    sleep_cycles
    mio_queue lg_queue lsu_interval mio_interval shared_passes_per_cycle tags_per_cycle l1_bytes_per_cycle
    l2_read_bytes_per_cycle l2_write_bytes_per_cycle l1_ways atomic_lanes_per_cycle atomic_sectors_per_cycle
    atomic_shared_lanes
}

impl Parameters {
    /// The numbers that come with the program.
    pub fn standard() -> Result<Parameters, TableError> {
        Parameters::read(TABLE)
    }

    /// What the model divides by, and counts, is there.
    fn checked(self) -> Result<Parameters, TableError> {
        let positive = [
            ("sms", self.sms),
            ("clock_mhz", self.clock_mhz),
            ("dram_bytes_per_second", self.dram_bytes_per_second),
            ("dram_efficiency", self.dram_efficiency),
            ("l2_bytes_per_clock", self.l2_bytes_per_clock),
            ("constant_line_bytes", self.constant_line_bytes),
            ("constant_lines", self.constant_lines),
            ("l0_instructions", self.l0_instructions),
            ("l1i_instructions", self.l1i_instructions),
            ("wgmma_columns_per_cycle", self.wgmma_columns_per_cycle),
            ("wgmma_queue", self.wgmma_queue),
            ("mio_queue", self.mio_queue),
            ("lg_queue", self.lg_queue),
            ("shared_passes_per_cycle", self.shared_passes_per_cycle),
            ("tags_per_cycle", self.tags_per_cycle),
            ("l1_bytes_per_cycle", self.l1_bytes_per_cycle),
            ("l2_read_bytes_per_cycle", self.l2_read_bytes_per_cycle),
            ("l2_write_bytes_per_cycle", self.l2_write_bytes_per_cycle),
            ("l1_ways", self.l1_ways),
            ("atomic_lanes_per_cycle", self.atomic_lanes_per_cycle),
            ("atomic_sectors_per_cycle", self.atomic_sectors_per_cycle),
        ];
        match positive.into_iter().find(|(_, value)| *value <= 0.0) {
            Some((name, _)) => Err(TableError { line: 0, what: format!("{name} must be more than 0") }),
            None => Ok(self),
        }
    }

    /// Bytes that the memory of the chip gives in a cycle.
    pub fn dram_bytes_per_cycle(&self) -> f64 {
        self.dram_bytes_per_second * self.dram_efficiency / (self.clock_mhz * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let read = Parameters::standard().unwrap();
        assert_eq!((read.sms, read.latency_shared), (132.0, 23.0));
        for row in rows(TABLE).unwrap() {
            assert!(!row.from.is_empty(), "{} has no source", row.name);
        }
    }

    #[test]
    fn bad_tables_are_refused() {
        let without = TABLE.replace("latency_shared ", "latency_shard ");
        assert!(Parameters::read(&without).unwrap_err().what.contains("latency_shard"));
        assert!(Parameters::read("sms 132 SMs spec x").unwrap_err().what.contains("missing"));
        assert_eq!(rows("sms x SMs spec").unwrap_err().line, 1);
        assert_eq!(rows("sms 1 SMs guess").unwrap_err().line, 1);
        let zero = TABLE.replace("l1_ways                      4", "l1_ways 0");
        assert!(Parameters::read(&zero).unwrap_err().what.contains("l1_ways"));
    }

    /// Issue intervals that are said to be ptxas's are those of the machine model.
    #[test]
    fn intervals_are_those_of_the_machine_model() {
        use sass::model::Unit;
        let (model, read) = (sass::Model::of(sass::Isa::Sm90), Parameters::standard().unwrap());
        for (unit, value) in [
            (Unit::Alu, read.interval_alu),
            (Unit::Half, read.interval_half),
            (Unit::Wide, read.interval_wide),
            (Unit::Double, read.interval_double),
            (Unit::Xu, read.interval_xu),
            (Unit::Uniform, read.interval_uniform),
            (Unit::TensorWide, read.interval_mma_wide),
            (Unit::TensorNarrow, read.interval_mma_narrow),
            (Unit::TensorLate, read.interval_mma_late),
        ] {
            assert_eq!(f64::from(model.interval(unit)), value, "{unit:?}");
        }
        // Two halves of the FMA pipe.
        assert_eq!(f64::from(model.interval(Unit::Fma)), read.interval_fma / 2.0);
    }
}
