//! `setmaxnreg`: when it is obeyed, and what the kernel starts with. The rules are ptxas's.

fn compile(directives: &str, body: &str) -> sassafras::Output {
    let source = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k(.param .b64 p) {directives} {{
        .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<300>;\n{body}\nret; }}\n"
    );
    let parsed = ptx::parse(&source, &ptx::Options::default());
    assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
    let target = ptx::Target::find("sm_90a").expect("a target");
    let options = sassafras::Options::new(target).with(|o| {
        o.verify = true;
    });
    sassafras::compile_module(&parsed.module.expect("a module"), &options)
}

/// The code of a kernel, and its number of registers.
fn code(output: &sassafras::Output) -> (Vec<sass::Inst>, Option<u32>) {
    let cubin = output.cubin.as_ref().unwrap_or_else(|| panic!("{:?}", output.diagnostics));
    let object = cubin::Object::read(cubin).expect("our own cubin");
    let (_, section) = object.section(".text.k").expect("code");
    let cubin::Body::Bytes(bytes) = &section.body else { panic!("no bytes") };
    let isa = sass::Isa::of_sm(90).expect("a machine");
    let word = |w: &[u8]| u128::from_le_bytes(w.try_into().expect("16 bytes"));
    let report = cubin::inspect::CubinReport::new(&object);
    let registers = report.kernels.first().and_then(|k| k.registers);
    (bytes.chunks(16).map(|w| sass::decode(isa, word(w))).collect(), registers)
}

const DECREASE: &str = "setmaxnreg.dec.sync.aligned.u32 40;";
const INCREASE: &str = "setmaxnreg.inc.sync.aligned.u32 232;";

fn changes(code: &[sass::Inst]) -> Vec<String> {
    code.iter().filter(|i| i.form().op == sass::Op::USETMAXREG).map(|i| i.to_string()).collect()
}

/// So many values that are alive together, at the barrier.
fn work(values: usize) -> String {
    let load = |i: usize| format!("ld.global.f32 %f{i}, [%rd1+{}];\n", 4 * i);
    let store = |i: usize| format!("st.global.f32 [%rd1+{}], %f{i};\n", 4 * (values - i));
    let first = "ld.param.b64 %rd1, [p];\n".to_string();
    let [loads, stores] = [(0..values).map(load).collect::<String>(), (0..values).map(store).collect()];
    first + &loads + "bar.sync 0;\n" + &stores
}

#[test]
fn only_a_known_start_can_change() {
    for directives in ["", ".maxntid 384", ".reqntid 384"] {
        let output = compile(directives, DECREASE);
        assert_eq!(changes(&code(&output).0), [""; 0], "{directives}");
        let [said] = &output.diagnostics[..] else { panic!("{:?}", output.diagnostics) };
        assert!(said.message.starts_with("(C7508) Potential Performance Loss"), "{}", said.message);
    }
    for directives in [".maxnreg 168", ".maxntid 384 .minnctapersm 1", ".reqntid 384 .minnctapersm 1"] {
        let (code, registers) = code(&compile(directives, DECREASE));
        assert_eq!(changes(&code), ["USETMAXREG.DEALLOC.CTAPOOL 0x28"], "{directives}");
        assert_eq!(registers, Some(168), "{directives}");
    }
}

#[test]
fn an_increase_is_never_to_less_than_the_start() {
    let (_, registers) = code(&compile(".maxnreg 168", "setmaxnreg.inc.sync.aligned.u32 104;"));
    assert_eq!(registers, Some(104));
    let output = compile(".maxnreg 168", "setmaxnreg.dec.sync.aligned.u32 200;");
    assert!(output.cubin.is_none());
    assert!(output.diagnostics[0].message.contains("(C7406)"), "{:?}", output.diagnostics);
}

/// The highest register of each stretch between changes.
#[test]
fn each_stretch_keeps_to_its_registers() {
    let body = format!("{DECREASE}\n{}\n{INCREASE}\n{}", work(100), work(200));
    let (code, _) = code(&compile(".maxnreg 168", &body));
    let mut highest = vec![0];
    for inst in &code {
        if inst.form().op == sass::Op::USETMAXREG {
            highest.push(0);
        }
        for access in inst.registers().filter(|a| a.file == sass::Kind::R) {
            let last = highest.last_mut().expect("a stretch");
            *last = u32::from(access.first).max(*last);
        }
    }
    let [start, small, large] = highest[..] else { panic!("{highest:?}") };
    assert!(start < 166 && small < 38 && (190..230).contains(&large), "{highest:?}");
}
