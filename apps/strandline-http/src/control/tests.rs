use super::*;

#[test]
fn labels_survive_a_round_trip() {
    for is_control in [false, true] {
        for window_exponent in WINDOW_EXPONENT_MIN..=WINDOW_EXPONENT_MAX {
            let label = Label { is_control, window_exponent };
            assert_eq!(Label::parse(label.ppid()), Some(label));
        }
    }
}

#[test]
fn other_identifiers_are_no_labels() {
    // None, S1AP, another version, reserved bits, windows out of range.
    for ppid in [0, 18, 0x5348_0214, 0x5348_0154, 0x5348_0101, 0x5348_011f, 0x5349_0114, u32::MAX] {
        assert_eq!(Label::parse(ppid), None, "{ppid:#x}");
    }
}

#[test]
fn control_messages_survive_a_round_trip() {
    for kind in [Kind::End, Kind::Reset, Kind::Credit(0x0102_0304_0506_0708)] {
        let control = Control { kind, number: 0x1112_1314 };
        assert_eq!(Control::parse(&control.to_bytes()), Some(control));
    }
}

#[test]
fn malformed_control_messages_are_rejected() {
    let good = Control { kind: Kind::End, number: 1 }.to_bytes();
    assert_eq!(Control::parse(&good[..15]), None);
    assert_eq!(Control::parse(&[good.as_slice(), &[0]].concat()), None);
    assert_eq!(Control::parse(&[0; CONTROL_LEN]), None);
}
