use super::*;

#[test]
fn numbers_and_indices_agree() {
    for (number, index) in PathIndex::ALL.into_iter().enumerate() {
        assert_eq!((PathIndex::new(number), usize::from(index)), (Some(index), number));
        assert_eq!(usize::from(index.number()), number);
    }
    assert_eq!(PathIndex::new(PATHS_MAX), None);
    assert_eq!(PathIndex::ALL.into_iter().map(PathIndex::bit).sum::<u8>(), u8::MAX, "a bit for each");
    assert_eq!(size_of::<Option<PathIndex>>(), 1);
}

#[test]
fn every_path_has_its_own_value() {
    let mut values = PerPath::<u8>::default();
    for index in PathIndex::ALL {
        values[index] = 10 + index.number();
    }
    assert!(values.iter().copied().eq(10..10 + PATHS_MAX as u8));
}

#[test]
fn values_of_lower_paths_are_created_too() {
    let mut values = PathVec::<u8>::new();
    assert_eq!((values.len(), values.heap_bytes(), values.first()), (0, 0, None));
    *values.or_insert_with(PathIndex::P2, PathIndex::number) += 100;
    assert!(values.iter().copied().eq([0, 1, 102]));
    *values.or_insert_with(PathIndex::P1, |_| unreachable!("it exists")) = 9;
    assert!(values.iter_mut().map(|value| *value).eq([0, 9, 102]));
    assert_eq!(values.heap_bytes(), 3);
}

#[test]
fn mask_yields_its_paths_in_order() {
    let mut mask = PathMask::of(PathIndex::P6);
    assert_eq!((mask.only(), mask.has_several(), mask.len()), (Some(PathIndex::P6), false, 1));
    mask.insert(PathIndex::P1);
    assert!(mask.eq([PathIndex::P1, PathIndex::P6]));
    assert_eq!((mask.only(), mask.has_several(), mask.len()), (None, true, 2));
    assert!(mask.contains(PathIndex::P1) && !mask.contains(PathIndex::P0));
    assert_eq!(mask.free(), Some(PathIndex::P0));
    mask.remove(PathIndex::P6);
    assert_eq!(mask.only(), Some(PathIndex::P1));
    mask.remove(PathIndex::P1);
    assert_eq!((mask.only(), mask.has_several(), mask.count()), (None, false, 0));
    let mut all = PathMask::default();
    PathIndex::ALL.into_iter().for_each(|path| all.insert(path));
    assert_eq!((all.len(), all.free()), (PATHS_MAX, None));
}
