//! Control codes. At -O0 each instruction waits for all before it.

use sass::{Control, Inst, Kind, Role};

/// The recipe of `ptxas -O0`: stall 15, wait for scoreboards 0 and 1; a variable-latency result counts on 0,
/// sources that are read late on 1. It needs no latencies, because no fixed latency of these operations is
/// longer than 15.
pub fn safe(inst: Inst) -> Inst {
    let needs = inst.form().class.scoreboards();
    let control = Control {
        stall: 15,
        yields: true,
        write: needs.write.then_some(0),
        // Where no register is read, nvdisasm takes no scoreboard for it (CCTL.IVALL, FENCE, LDCU).
        read: (needs.read && reads_registers(&inst)).then_some(1),
        wait: 0b11,
        reuse: 0,
    };
    inst.controlled(control)
}

fn reads_registers(inst: &Inst) -> bool {
    inst.registers().any(|access| access.role == Role::Use && matches!(access.file, Kind::R | Kind::U))
}

/// What stands behind the program: the self-branch and the padding never run to completion.
pub fn padding(inst: Inst) -> Inst {
    inst.controlled(Control { stall: 0, yields: true, write: None, read: None, wait: 0, reuse: 0 })
}
