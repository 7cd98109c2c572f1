#![allow(clippy::unwrap_used)]

use super::*;
use crate::store::temporary::File;

#[test]
fn removed_and_replaced_files_are_told_apart() {
    let file = File::new("place");
    let log = file.beside("-wal");
    std::fs::write(&file.0, "one").unwrap();
    std::fs::write(&log, "log").unwrap();
    let place = Place::new(&file.0);
    place.check().unwrap();
    for path in [&file.0, &log] {
        let away = PathBuf::from(format!("{}.away", path.display()));
        std::fs::rename(path, &away).unwrap();
        let error = place.check().unwrap_err();
        assert!(error.cause.contains("removed") && !error.is_final, "{error}");
        std::fs::write(path, "another").unwrap();
        let error = place.check().unwrap_err();
        assert!(error.cause.contains("replaced"), "{error}");
        std::fs::rename(&away, path).unwrap();
        place.check().unwrap();
    }
}
