use super::*;

#[test]
fn own_instructions_are_added_up_by_kind() {
    let text = "\
events: Ir
summary: 1000

ob=/x/prog
fl=a.rs
fn=engine::send
0 100
cfi=b.rs
cfn=crc_fast::update
calls=3 0
0 50
0 7

fl=b.rs
fn=crc_fast::update
0 50

fn=sha2::sha256::compress
0 5

ob=/lib/libc.so.6
fl=???
fn=memcpy
0 20
totals: 1000
";
    let expected = Instructions { engine: 107, checksum: 50, hashing: 5, library: 20 };
    assert_eq!(parse(text, "prog"), expected);
}
