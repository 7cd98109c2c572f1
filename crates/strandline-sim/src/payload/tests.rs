use super::*;

#[test]
fn parts_match_at_their_place_only() {
    let whole = content(7, 100);
    for start in 0..100 {
        for end in start..100 {
            assert!(matches(7, start, &whole[start..end]), "{start}..{end}");
        }
        assert!(start > 96 || !matches(8, start, &whole[start..]), "another message");
        assert!(start > 96 || !matches(7, start + 1, &whole[start..]), "another place");
    }
}

#[test]
fn one_wrong_bit_is_seen() {
    let mut wrong = content(9, 41).to_vec();
    wrong[40] ^= 1;
    assert!(!matches(9, 0, &wrong));
}
