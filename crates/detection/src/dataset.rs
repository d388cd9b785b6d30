//! `--make-dataset`: generated data in the layout of Oxford-IIIT Pet, without a download; the same seed gives the same
//! bytes.

use jpeg_encoder::{ColorType, Encoder};
use perf4sight_base::atomic_write;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;
use perf4sight_verb::{Context, Summary, Verb};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;

/// Trimap value of a pixel of the pet.
const PET: u8 = 1;
const BACKGROUND: u8 = 2;
const BORDER: u8 = 3;
/// How far the border reaches on both sides of the outline, as a share of the ellipse: some pixels, as in the original.
const BORDER_WIDTH: f64 = 0.06;
/// Sides of images in pixels: most of the original's are 300 to 500.
const SIDES: [u32; 2] = [300, 500];
/// Quality of JPEGs.
const QUALITY: u8 = 90;
/// The most that one command makes.
pub const MOST: u64 = 100_000;

/// Options of `--make-dataset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MakeDataset {
    /// The folder, which is not there yet or is empty.
    pub folder: PathBuf,
    pub count: u64,
    pub seed: u64,
}

/// A pet: an ellipse on a ground that is not plain.
struct Pet {
    width: u32,
    height: u32,
    middle: [f64; 2],
    radii: [f64; 2],
    fur: [u8; 3],
    ground: [u8; 3],
}

impl Verb for MakeDataset {
    /// Writes images, trimaps, boxes of heads and the lists.
    ///
    /// # Errors
    /// A folder that holds something, or cannot be written.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        self.check_empty()?;
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let progress = context.console.progress(self.count, "drawing");
        let mut names = Vec::new();
        for number in 0..self.count {
            if context.cancelled() {
                break;
            }
            let name = format!("pet_{number}");
            let pet = Pet::draw(&mut draws);
            let annotations = self.folder.join("annotations");
            atomic_write::save(&self.folder.join("images").join(format!("{name}.jpg")), pet.image(&mut draws)?)?;
            atomic_write::save(&annotations.join("trimaps").join(format!("{name}.png")), pet.trimap()?)?;
            atomic_write::save(&annotations.join("xmls").join(format!("{name}.xml")), pet.head(&name))?;
            names.push(name);
            progress.advance(1);
        }
        drop(progress);
        self.lists(&names)?;
        let made = count_text(names.len() as u64, "image");
        Ok(Summary {
            headline: format!("{made} with trimaps and boxes of heads in {}", self.folder.display()),
            json: json!({ "folder": self.folder, "images": names.len(), "seed": self.seed }),
            ..Summary::default()
        })
    }
}

impl MakeDataset {
    fn check_empty(&self) -> Result<()> {
        let occupied = fs::read_dir(&self.folder).is_ok_and(|mut entries| entries.next().is_some());
        match occupied {
            true => {
                Err(Error::usage("this folder holds something already").file(&self.folder).help("name another one"))
            }
            false => Ok(()),
        }
    }

    /// `name class species breed`, as published: training and validation, test, and all.
    fn lists(&self, names: &[String]) -> Result<()> {
        let lines: String = names.iter().map(|name| format!("{name} 1 1 1\n")).collect();
        for (list, lines) in [("trainval", lines.as_str()), ("test", ""), ("list", &lines)] {
            atomic_write::save(&self.folder.join("annotations").join(format!("{list}.txt")), lines)?;
        }
        Ok(())
    }
}

impl Pet {
    fn draw(draws: &mut impl Rng) -> Self {
        let [width, height] = [(); 2].map(|()| draws.random_range(SIDES[0]..=SIDES[1]));
        let sides = [f64::from(width), f64::from(height)];
        let radii = sides.map(|side| side * draws.random_range(0.12..0.3));
        let middle = [0, 1].map(|axis| draws.random_range(radii[axis] + 1.0..sides[axis] - radii[axis] - 1.0));
        let [fur, ground] = [(); 2].map(|()| [(); 3].map(|()| draws.random()));
        Pet { width, height, middle, radii, fur, ground }
    }

    /// Distance of a pixel from the middle, relative to the outline: below one inside it.
    fn place(&self, x: u32, y: u32) -> f64 {
        let along = |at: u32, axis: usize| (f64::from(at) - self.middle[axis]) / self.radii[axis];
        along(x, 0).hypot(along(y, 1))
    }

    fn pixels(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (width, height) = (self.width, self.height);
        (0..height).flat_map(move |y| (0..width).map(move |x| (x, y)))
    }

    /// With some noise, so that a JPEG takes nearly as long to decode as a photograph.
    fn image(&self, draws: &mut impl Rng) -> Result<Vec<u8>> {
        let pixel = |(x, y): (u32, u32)| {
            let colour = if self.place(x, y) <= 1.0 { self.fur } else { self.ground };
            colour.map(|channel| channel.saturating_add(draws.random_range(0..32)))
        };
        let pixels: Vec<u8> = self.pixels().flat_map(pixel).collect();
        let mut file = Vec::new();
        // Sides are of 500 pixels at most.
        let [width, height] = [self.width, self.height].map(|side| side as u16);
        Encoder::new(&mut file, QUALITY)
            .encode(&pixels, width, height, ColorType::Rgb)
            .map_err(|cause| undrawn(&cause))?;
        Ok(file)
    }

    fn trimap(&self) -> Result<Vec<u8>> {
        let value = |(x, y)| match self.place(x, y) {
            place if place <= 1.0 - BORDER_WIDTH => PET,
            place if place <= 1.0 + BORDER_WIDTH => BORDER,
            _ => BACKGROUND,
        };
        let values: Vec<u8> = self.pixels().map(value).collect();
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(|cause| undrawn(&cause))?;
        writer.write_image_data(&values).map_err(|cause| undrawn(&cause))?;
        writer.finish().map_err(|cause| undrawn(&cause))?;
        Ok(file)
    }

    /// The box of the upper third, as the original's files have it (PASCAL VOC).
    fn head(&self, name: &str) -> String {
        let [left, upper] = [0, 1].map(|axis| (self.middle[axis] - self.radii[axis]).round() as u32);
        let right = (self.middle[0] + self.radii[0]).round() as u32;
        let lower = (self.middle[1] - self.radii[1] / 3.0).round() as u32;
        format!(
            "<annotation><filename>{name}.jpg</filename><size><width>{}</width><height>{}</height><depth>3</depth></size>\
             <object><name>pet</name><bndbox><xmin>{left}</xmin><ymin>{upper}</ymin><xmax>{right}</xmax><ymax>{lower}</ymax></bndbox>\
             </object></annotation>\n",
            self.width, self.height
        )
    }
}

fn undrawn(cause: &dyn Display) -> Error {
    Error::device(format!("an image cannot be drawn: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pet(seed: u64) -> Pet {
        Pet::draw(&mut Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    #[test]
    fn the_trimap_says_where_the_pet_is() {
        for seed in 0..50 {
            let pet = pet(seed);
            let trimap = pet.trimap().unwrap();
            let mut reader = png::Decoder::new(std::io::Cursor::new(trimap)).read_info().unwrap();
            let mut values = vec![0; reader.output_buffer_size().unwrap()];
            reader.next_frame(&mut values).unwrap();
            let at = |[x, y]: [f64; 2]| values[y as usize * pet.width as usize + x as usize];
            assert_eq!((at(pet.middle), at([0.0, 0.0])), (PET, BACKGROUND), "{seed}");
            // The area of an ellipse is pi times its radii; the pet covers a share of 1 - 0.06 of each radius.
            let covered = values.iter().filter(|value| **value == PET).count() as f64;
            let expected = std::f64::consts::PI * pet.radii[0] * pet.radii[1] * (1.0 - BORDER_WIDTH).powi(2);
            assert!((covered / expected - 1.0).abs() < 0.02, "{seed}: {covered} for {expected}");
        }
    }

    #[test]
    fn the_head_lies_within_the_image() {
        for seed in 0..50 {
            let pet = pet(seed);
            let head = pet.head("pet_0");
            let side = |name: &str| {
                let (_, rest) = head.split_once(&format!("<{name}>")).unwrap();
                rest.split_once('<').unwrap().0.parse::<u32>().unwrap()
            };
            assert!(side("xmin") < side("xmax") && side("xmax") <= pet.width, "{head}");
            assert!(side("ymin") < side("ymax") && side("ymax") <= pet.height, "{head}");
        }
    }
}
