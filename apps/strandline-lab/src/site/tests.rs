#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use super::*;

#[test]
fn page_names_all_files_beside_it() {
    let directory = std::env::temp_dir().join(format!("lab-site-{}", std::process::id()));
    create(&directory).unwrap();
    let html = fs::read_to_string(directory.join("page/index.html")).unwrap();
    assert_eq!(html.len(), HTML_BYTES);
    let named: Vec<&str> = html
        .split("src=\"")
        .chain(html.split("href=\""))
        .filter_map(|rest| rest.split_once('"'))
        .map(|(name, _)| name)
        .filter(|name| directory.join("page").join(name).is_file())
        .collect();
    assert_eq!(named.len(), OBJECTS);
    let bytes: u64 =
        named.iter().map(|name| fs::metadata(directory.join("page").join(name)).unwrap().len()).sum();
    assert_eq!(bytes, 560 << 10);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn files_have_their_sizes_and_are_kept() {
    let directory = std::env::temp_dir().join(format!("lab-site-kept-{}", std::process::id()));
    create(&directory).unwrap();
    for (name, bytes) in FILES {
        assert_eq!(fs::metadata(directory.join(name)).unwrap().len(), bytes as u64, "{name}");
    }
    let (kept, broken) = (directory.join("100"), directory.join("1k"));
    fs::write(&kept, [7; 100]).unwrap();
    fs::write(&broken, "short").unwrap();
    create(&directory).unwrap();
    assert_eq!(fs::read(&kept).unwrap(), [7; 100]);
    assert_eq!(fs::read(&broken).unwrap(), content(1 << 10));
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn pages_with_five_images() {
    let directory = std::env::temp_dir().join(format!("lab-site-images-{}", std::process::id()));
    create(&directory).unwrap();
    for (size, bytes) in IMAGES {
        let html = fs::read_to_string(directory.join(format!("images/{size}.html"))).unwrap();
        let images: Vec<&str> =
            html.split("src=").skip(1).filter_map(|rest| rest.split('>').next()).collect();
        assert_eq!(images.len(), IMAGES_OF_A_PAGE);
        for image in images {
            assert_eq!(fs::metadata(directory.join("images").join(image)).unwrap().len(), bytes as u64);
        }
    }
    fs::remove_dir_all(&directory).unwrap();
}
