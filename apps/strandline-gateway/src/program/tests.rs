use super::executable::{Kind, kind};
use super::network;

/// An ELF file of this processor with program headers of these types, which have these bytes.
fn elf(parts: &[(u32, &[u8])]) -> Vec<u8> {
    let own = std::fs::read("/proc/self/exe").unwrap();
    let mut file = own[..64].to_vec();
    file[32..40].copy_from_slice(&64_u64.to_ne_bytes());
    file[54..56].copy_from_slice(&56_u16.to_ne_bytes());
    file[56..58].copy_from_slice(&(parts.len() as u16).to_ne_bytes());
    let mut at = (64 + 56 * parts.len()) as u64;
    for (kind, bytes) in parts {
        let mut header = [0; 56];
        header[..4].copy_from_slice(&kind.to_ne_bytes());
        header[8..16].copy_from_slice(&at.to_ne_bytes());
        header[32..40].copy_from_slice(&(bytes.len() as u64).to_ne_bytes());
        file.extend_from_slice(&header);
        at += bytes.len() as u64;
    }
    for (_, bytes) in parts {
        file.extend_from_slice(bytes);
    }
    file
}

fn kind_of(file: &[u8]) -> Kind {
    kind(file, |offset, len| file.get(offset as usize..)?.get(..len).map(<[u8]>::to_vec))
}

#[test]
fn programs_are_told_apart() {
    let loader = (3, &b"/lib64/ld-linux-x86-64.so.2\0"[..]);
    assert_eq!(kind_of(&elf(&[(1, b""), loader])), Kind::Dynamic("/lib64/ld-linux-x86-64.so.2".to_owned()));
    assert_eq!(kind_of(&elf(&[(1, b"")])), Kind::Static);
    let note = (4, &b"\x04\0\0\0\x02\0\0\0\x04\0\0\0Go\0\0id\0\0"[..]);
    assert_eq!(kind_of(&elf(&[note, loader])), Kind::Go);
    let mut foreign = elf(&[(1, b"")]);
    foreign[18] ^= 1;
    assert_eq!(kind_of(&foreign), Kind::Foreign);
    assert_eq!(kind_of(b"#! /usr/bin/env python3\n"), Kind::Script("/usr/bin/env".to_owned()));
    for damaged in [&b""[..], b"text", b"#!", b"\x7fELF", &elf(&[(1, b"")])[..70], &elf(&[(3, b"x")])[..64]] {
        assert_eq!(kind_of(damaged), Kind::Unknown, "{damaged:?}");
    }
}

#[test]
fn networks_have_a_length() {
    assert_eq!(network("10.0.0.0/8").as_deref(), Ok("10.0.0.0/8"));
    assert_eq!(network("192.0.2.7").as_deref(), Ok("192.0.2.7/32"));
    assert_eq!(network("2001:db8::/32").as_deref(), Ok("2001:db8::/32"));
    for wrong in ["", "example", "10.0.0.0/33", "10.0.0.0/x", "::/129"] {
        assert!(network(wrong).is_err(), "{wrong}");
    }
}
