//! Converts SVG to PNG with a built-in font, so that it looks the same everywhere.

use std::sync::Arc;

use anyhow::{Context, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Latin letters, digits and symbols of DejaVu Sans; its licence is beside the file.
const FONT: &[u8] = include_bytes!("../../fonts/DejaVuSans-latin.ttf");
/// Pixels per unit of the drawing.
const SCALE: f32 = 2.0;

/// Renders the drawing as PNG.
///
/// # Errors
/// If the drawing can't be parsed, or is too large.
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options =
        Options { fontdb: Arc::new(fonts), font_family: "DejaVu Sans".to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).context("parsing the SVG")?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE).ceil() as u32, (size.height() * SCALE).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).context("the figure is too large for a PNG")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().context("encoding the PNG")
}
