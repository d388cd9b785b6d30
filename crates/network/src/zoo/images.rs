//! The inputs that known networks are built for: image size and number of classes.

use super::Dataset;
use crate::Shape;
use perf4sight_base::error::{Error, Result};

/// Images and their classes: those of a dataset, or others, which are then part of the word: `imagenet-3x320x320-7`.
///
/// ```
/// use perf4sight_network::zoo::{Dataset, ImageDataset};
/// let images = ImageDataset::from_word("imagenet-3x320x320")?;
/// assert_eq!((images.input().dims(), images.classes()), ([3, 320, 320].as_slice(), 1000));
/// assert_eq!(ImageDataset::from_dataset("cifar10", None, Some(7))?.word(), "cifar10-7");
/// assert_eq!(ImageDataset::from(Dataset::Cifar10).word(), "cifar10");
/// assert!(ImageDataset::from_word("flowers").is_err());
/// assert_eq!(ImageDataset::from_word("flowers-3x64x64-102")?.classes(), 102);
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageDataset {
    word: String,
    input: Shape,
    classes: usize,
}

/// Separates dataset, image size and number of classes in a word.
const BETWEEN: char = '-';

/// More classes than any network has.
const MOST_CLASSES: usize = 1 << 24;

impl ImageDataset {
    /// The images of a dataset, with another size or number of classes if given; if both are given, the dataset may
    /// have any name.
    ///
    /// # Errors
    /// An unknown dataset, unless size and classes are given.
    pub fn from_dataset(dataset: &str, input: Option<&Shape>, classes: Option<usize>) -> Result<Self> {
        let word = Self::word_for(dataset, input, classes);
        if let (Some(input), Some(classes)) = (input, classes) {
            return Ok(ImageDataset { word, input: input.clone(), classes });
        }
        let known = Self::from(Dataset::parse(dataset)?);
        let input = input.cloned().unwrap_or(known.input);
        Ok(ImageDataset { word, input, classes: classes.unwrap_or(known.classes) })
    }

    /// The images that a word names.
    ///
    /// # Errors
    /// As [`ImageDataset::from_dataset`].
    pub fn from_word(word: &str) -> Result<Self> {
        let (dataset, input, classes) = Self::parts(word);
        Self::from_dataset(dataset, input.as_ref(), classes)
    }

    /// The images that a word names, with another size or number of classes if given.
    ///
    /// # Errors
    /// As [`ImageDataset::from_dataset`].
    pub fn from_word_with(word: &str, input: Option<&Shape>, classes: Option<usize>) -> Result<Self> {
        let (dataset, own_input, own_classes) = Self::parts(word);
        Self::from_dataset(dataset, input.or(own_input.as_ref()), classes.or(own_classes))
    }

    /// The word of a dataset with this size and number of classes if given, as in folders and rows.
    pub fn word_for(dataset: &str, input: Option<&Shape>, classes: Option<usize>) -> String {
        let said = [input.map(Shape::to_string), classes.map(|classes| classes.to_string())];
        said.into_iter().flatten().fold(dataset.to_owned(), |word, part| word + &format!("{BETWEEN}{part}"))
    }

    /// The word in configuration, rows and names of folders.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// One image: channels, height, width.
    pub fn input(&self) -> &Shape {
        &self.input
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Whether its word includes the image size, instead of leaving it to the dataset.
    pub fn is_sized(&self) -> bool {
        Self::parts(&self.word).1.is_some()
    }

    fn parts(word: &str) -> (&str, Option<Shape>, Option<usize>) {
        let split = |word| str::rsplit_once(word, BETWEEN);
        let (word, classes) = match split(word).map(|(rest, last)| (rest, parse_classes(last))) {
            Some((rest, Ok(classes))) => (rest, Some(classes)),
            _ => (word, None),
        };
        match split(word).map(|(rest, last)| (rest, parse_input(last))) {
            Some((rest, Ok(input))) => (rest, Some(input), classes),
            _ => (word, None, classes),
        }
    }
}

impl From<Dataset> for ImageDataset {
    fn from(dataset: Dataset) -> Self {
        let input = Shape::new([3, dataset.size(), dataset.size()]);
        ImageDataset { word: dataset.name().to_owned(), input, classes: dataset.classes() }
    }
}

/// The shape of one sample of an input: `3x320x320`.
///
/// # Errors
/// A word that is no such shape.
pub fn parse_input(word: &str) -> Result<Shape> {
    let sizes = word.trim().split('x').map(|size| size.parse().ok().filter(|size| (1..1usize << 20).contains(size)));
    let sizes: Option<Vec<usize>> = sizes.collect();
    let shape = sizes.filter(|sizes| sizes.len() > 1 && sizes.len() < 8).map(Shape::new);
    shape.filter(|shape| shape.elements() <= 1 << 31).ok_or_else(|| {
        Error::config(format!("\"{word}\" is not a shape of an input"))
            .expected("one sample without its batch, channels first, such as 3x320x320")
    })
}

/// A number of classes.
///
/// # Errors
/// A word that is no number of classes, or too large a one.
pub fn parse_classes(word: &str) -> Result<usize> {
    word.trim().parse().ok().filter(|classes| (1..=MOST_CLASSES).contains(classes)).ok_or_else(|| {
        Error::config(format!("\"{word}\" is not a number of classes"))
            .expected(format!("a whole number from 1 to {MOST_CLASSES}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_is_not_as_the_dataset_has_it() {
        for word in ["imagenet", "imagenet-3x320x320", "imagenet-7", "imagenet-1x28x28-7", "my-own-3x64x64-2"] {
            assert_eq!(ImageDataset::from_word(word).unwrap().word(), word);
        }
        let (input, classes) = (Shape::new([3, 96, 64]), 5);
        let images = ImageDataset::from_word_with("imagenet-3x320x320-7", Some(&input), None).unwrap();
        assert_eq!((images.word(), images.input(), images.classes()), ("imagenet-3x96x64-7", &input, 7));
        let images = ImageDataset::from_word_with("mine", Some(&input), Some(classes)).unwrap();
        assert_eq!((images.word(), images.classes()), ("mine-3x96x64-5", 5));
        assert!(ImageDataset::from_word("mine-3x96x64").is_err(), "how many classes is not said");
    }

    #[test]
    fn shapes_and_classes_are_checked() {
        for wrong in ["320", "3x", "3x0x320", "3xax3", "", "3x320x320x", "1000000x1000000x9"] {
            assert!(parse_input(wrong).unwrap_err().to_string().contains("such as 3x320x320"), "{wrong}");
        }
        for wrong in ["0", "-1", "many", "99999999999"] {
            assert!(parse_classes(wrong).is_err(), "{wrong}");
        }
    }
}
