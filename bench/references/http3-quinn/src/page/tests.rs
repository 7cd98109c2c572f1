use super::objects;

#[test]
fn links_scripts_and_images_are_objects() {
    let html = "<link rel=\"stylesheet\" href=\"a.css\"><a href=\"b.html\">b</a><script src=\"c.js\"></script>\
                <img alt=\"\" src=\"d.png\"><img src=\"d.png\">";
    assert_eq!(objects(html), ["a.css", "c.js", "d.png"]);
}
