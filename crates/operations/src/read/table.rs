//! Tables of operations: CSV, by the names of its columns.

use super::RowOrigin;
use crate::class::{OperationClass, class_of};
use crate::element::ElementType;
use crate::gpus::{DataSheet, sheet};
use crate::row::OperationRow;
use crate::work::{OperationWork, TensorShape, work};
use csv::{ReaderBuilder, StringRecord, Trim};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use std::path::Path;

/// Columns of the time, with the microseconds of their units.
const TIMES: [(&str, f64); 3] = [("time_us", 1.0), ("time_ms", 1e3), ("time_s", 1e6)];
const EXPECTED: &str =
    "the columns operation, shapes, type, flops, bytes, time_us; gpu, network and count where they differ";

pub(super) fn is_table(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "csv")
}

/// Reads a table whose rows may name their GPU and network.
///
/// # Errors
/// A file that cannot be read; a missing column; a number that is none; an operation that is not known; times in another unit.
pub fn read(file: &Path) -> Result<Vec<OperationRow>> {
    read_of(file, &RowOrigin { gpu: String::new(), network: String::new() })
}

/// The same, of a folder that names GPU and network.
pub(super) fn read_of(file: &Path, origin: &RowOrigin) -> Result<Vec<OperationRow>> {
    let text = input_file::table(file, "read the operations")?;
    parse(&text, origin).map_err(|error| error.file(file))
}

fn parse(text: &str, origin: &RowOrigin) -> Result<Vec<OperationRow>> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(text.as_bytes());
    let malformed = |error: csv::Error| {
        let line = error.position().map(|position| position.line() as usize);
        let problem = Error::input(format!("this is not a table of comma-separated values: {error}"));
        line.into_iter().fold(problem, Error::line)
    };
    let columns = TableHeader(reader.headers().map_err(malformed)?.clone());
    columns.check()?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(malformed)?;
        let line = record.position().map_or(0, |position| position.line() as usize);
        let row = columns.row(&record, origin).and_then(|row| row.check().map(|()| row));
        rows.push(row.map_err(|error| error.line(line))?);
    }
    match rows.is_empty() {
        true => Err(Error::input("the table holds no operations").expected("a header and at least one row")),
        false => Ok(rows),
    }
}

struct TableHeader(StringRecord);

impl TableHeader {
    fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|heading| heading.eq_ignore_ascii_case(name))
    }

    fn check(&self) -> Result<()> {
        let has = |name: &str| self.place(name).is_some();
        let wrong = |problem: String| Err(Error::input(problem).line(1).expected(EXPECTED));
        if let [only] = self.0.iter().collect::<Vec<_>>()[..]
            && only.contains([';', '\t'])
        {
            return Err(Error::input("the header is one cell").line(1).expected("cells with commas between them"));
        }
        if let Some(heading) = self.repeated() {
            return wrong(format!("there are two columns {heading}"));
        }
        if !has("operation") {
            return wrong("there is no column operation".to_owned());
        }
        let says_work = has("shapes") || (has("flops") && has("bytes"));
        if !says_work {
            return wrong("neither shapes nor flops and bytes say what the operations do".to_owned());
        }
        match TIMES.iter().filter(|(name, _)| has(name)).count() {
            0 | 1 => Ok(()),
            _ => wrong("the time of an operation is given twice".to_owned()),
        }
    }

    /// A heading that two columns have.
    fn repeated(&self) -> Option<&str> {
        let is_repeated = |place: usize, heading: &str| self.place(heading).is_some_and(|first| first < place);
        let mut headings = self.0.iter().enumerate().filter(|(_, heading)| !heading.is_empty());
        headings.find(|(place, heading)| is_repeated(*place, heading)).map(|(_, heading)| heading)
    }

    fn cell<'r>(&self, record: &'r StringRecord, name: &str) -> &'r str {
        self.place(name).and_then(|place| record.get(place)).unwrap_or_default()
    }

    /// A number of at least 0; none where the cell is empty.
    fn number(&self, record: &StringRecord, name: &str) -> Result<Option<f64>> {
        let text = self.cell(record, name);
        match text.parse::<f64>() {
            _ if text.is_empty() => Ok(None),
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
            _ => Err(Error::input(format!("{name} is \"{text}\"")).expected("a number from 0")),
        }
    }

    fn row(&self, record: &StringRecord, origin: &RowOrigin) -> Result<OperationRow> {
        let operation = self.cell(record, "operation").to_owned();
        let Some(class) = class_of(&operation) else {
            return Err(Error::input(format!("the operation \"{operation}\" is not known"))
                .expected("one of PyTorch, TensorFlow or MXNet that computes or moves something, such as aten::mm"));
        };
        let shapes = self.cell(record, "shapes").to_owned();
        let element = self.element(record)?;
        let own = [self.number(record, "flops")?, self.number(record, "bytes")?];
        let work = match own {
            [Some(flops), Some(bytes)] => {
                let work = OperationWork { flops, bytes };
                check_work(&operation, class, work, of_shapes(&operation, &shapes, element).ok())?;
                work
            }
            _ => of_shapes(&operation, &shapes, element)?,
        };
        let times = TIMES.iter().map(|(name, unit)| Ok(self.number(record, name)?.map(|time| time * unit)));
        let time = times.collect::<Result<Vec<_>>>()?.into_iter().flatten().next();
        let or = |name: &str, origin: &str| match self.cell(record, name) {
            "" => origin.to_owned(),
            own => own.to_owned(),
        };
        check_gpu(self.cell(record, "gpu"), &origin.gpu)?;
        Ok(OperationRow {
            gpu: or("gpu", &origin.gpu),
            network: or("network", &origin.network),
            operation,
            class,
            shapes,
            element,
            work,
            time_us: time.unwrap_or(0.0),
            count: self.count(record)?,
        })
    }

    /// How often an operation ran; once where nothing says it.
    fn count(&self, record: &StringRecord) -> Result<u32> {
        match self.cell(record, "count") {
            "" => Ok(1),
            text => text.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
                Error::input(format!("count is \"{text}\"")).expected("how often the operation ran, from 1")
            }),
        }
    }

    fn element(&self, record: &StringRecord) -> Result<ElementType> {
        match self.cell(record, "type") {
            "" => Ok(ElementType::Fp32),
            spelled => ElementType::from_spelling(spelled).ok_or_else(|| {
                Error::input(format!("\"{spelled}\" is not a type of elements"))
                    .one_of(spelled, ElementType::ALL.map(ElementType::name))
            }),
        }
    }
}

/// Refuses a row of another GPU than its folder is of.
fn check_gpu(own: &str, folder: &str) -> Result<()> {
    let is_other = |own: &DataSheet, folder: &DataSheet| own.contradicts(folder) && folder.contradicts(own);
    match sheet(own).zip(sheet(folder)) {
        Some((measured, named)) if is_other(measured, named) => {
            Err(Error::input(format!("gpu is {own}, in a folder of {folder}"))
                .expected("folders GPU/NETWORK/ with rows of that GPU"))
        }
        _ => Ok(()),
    }
}

/// Columns may differ from what shapes say by so many times: tensors have types of their own.
const DIFFERENT: f64 = 16.0;
/// A product reads and writes fewer bytes than this for each FLOP: one element of eight bytes for each two at the most.
const MOST_BYTES_OF_FLOP: f64 = 100.0;

/// Element-wise operations do fewer FLOPs than this for each byte, however they are counted.
const MOST_FLOPS_OF_BYTE: f64 = 100.0;

/// Refuses FLOPs and bytes that contradict each other, or the shapes of their row: another unit.
fn check_work(
    operation: &str,
    class: OperationClass,
    work: OperationWork,
    by_shapes: Option<OperationWork>,
) -> Result<()> {
    let wrong = |problem: String| Err(Error::input(problem).expected("FLOPs and bytes as counts"));
    let is_product = matches!(class, OperationClass::Product | OperationClass::Convolution | OperationClass::Attention);
    let most_flops = if class == OperationClass::Product {
        // Of all products on so many elements those of square matrices do the most, 2 n³ on 3 n²; backward does two, and tensors may be
        // left out.
        8.0 * (work.bytes / 3.0).powf(1.5)
    } else if class == OperationClass::Elementwise {
        MOST_FLOPS_OF_BYTE * work.bytes
    } else {
        f64::INFINITY
    };
    if (is_product && work.bytes > MOST_BYTES_OF_FLOP * work.flops) || work.flops > most_flops {
        return wrong(format!("{operation} would do {} FLOPs with {} bytes", work.flops, work.bytes));
    }
    let Some(own) = by_shapes else { return Ok(()) };
    let differs = |(one, other): (f64, f64)| one > 0.0 && other > 0.0 && (one / other).ln().abs() > DIFFERENT.ln();
    match differs((work.flops, own.flops)) || differs((work.bytes, own.bytes)) {
        false => Ok(()),
        true => wrong(format!(
            "{operation} does {} FLOPs with {} bytes by its columns, and {} with {} by its shapes",
            work.flops, work.bytes, own.flops, own.bytes
        )),
    }
}

/// The work of an operation by its shapes, `128x1024;1024x512`.
fn of_shapes(operation: &str, shapes: &str, element: ElementType) -> Result<OperationWork> {
    let expected = if class_of(operation) == Some(OperationClass::Convolution) {
        "flops and bytes: the shapes of inputs say neither strides nor the output"
    } else {
        "the shapes of its inputs, such as 128x1024;1024x512 of aten::mm, or flops and bytes"
    };
    let wrong = || Error::input(format!("the shapes \"{shapes}\" do not say what {operation} does")).expected(expected);
    let tensor = |shape: &str| {
        let sizes = shape.split('x').map(|size| size.trim().parse::<u64>());
        sizes.collect::<std::result::Result<Vec<_>, _>>().ok().map(|shape| TensorShape { shape, element })
    };
    let tensors = shapes.split(';').map(tensor).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    let class = class_of(operation).ok_or_else(wrong)?;
    work(operation, class, &tensors, &[]).filter(|work| work.bytes > 0.0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Result<Vec<OperationRow>> {
        parse(text, &RowOrigin { gpu: "V100".to_owned(), network: "mlp".to_owned() })
    }

    #[test]
    fn rows_have_their_work_from_columns_or_shapes() {
        let text = "operation,shapes,type,flops,bytes,time_ms\naten::mm,8x16;16x32,fp16,,,0.5\naten::add,,,10,120,2\n";
        let rows = rows(text).unwrap();
        assert_eq!((rows[0].work.flops, rows[0].work.bytes, rows[0].time_us), (8192.0, 2.0 * 896.0, 500.0));
        assert_eq!((rows[1].work.bytes, rows[1].gpu.as_str(), rows[1].element), (120.0, "V100", ElementType::Fp32));
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_its_line() {
        let message = |text: &str| rows(text).unwrap_err().to_string();
        assert!(message("operation,flops,bytes,time_us\naten::mm,1e12,1e9,1\n").contains("more than any GPU does"));
        // 1024³ in fp16: 2.1e9 FLOPs, 6.3e6 bytes; in GFLOP, in KiB, and with shapes of other sizes.
        for row in ["2.1,6.3e6", "2.1e9,6.1e3"] {
            let text = format!("operation,flops,bytes,time_us\naten::mm,{row},15\n");
            assert!(message(&text).contains("would do"), "{row}");
        }
        let with_shapes = "operation,shapes,flops,bytes\naten::mm,8x16;16x32,2.1e9,6.3e6\n";
        assert!(message(with_shapes).contains("by its shapes"));
        assert!(message("operation,flops,bytes,time_us,time_ms\naten::mm,1,1,1,1\n").contains("twice"));
        for shapes in ["8x16;5x7", "0x0;0x0"] {
            assert!(message(&format!("operation,shapes\naten::mm,{shapes}\n")).contains("do not say"), "{shapes}");
        }
        // 2^97 FLOPs.
        let endless = "operation,shapes\naten::mm,4294967296x4294967296;4294967296x4294967296\n";
        assert!(message(endless).contains("more than any GPU does"));
        assert!(message("operation,shapes\naten::unheard,8x16\n").contains("not known"));
        assert!(message("shapes\n8\n").contains("no column operation"));
        assert!(message("operation,flops,bytes,time_us\naten::mm,1,1,x\n").contains("time_us is \"x\""));
        assert!(message("operation,flops,bytes,time_us,time_us\n").contains("two columns time_us"));
        assert!(message("operation;flops;bytes\n").contains("commas"));
        for count in ["0", "1.5", "-1"] {
            let text = format!("operation,flops,bytes,count\naten::add,1,1,{count}\n");
            assert!(message(&text).contains("from 1"), "{count}");
        }
        assert!(
            message("operation,flops,bytes,gpu\naten::add,1,1,H100\n").contains("gpu is H100, in a folder of V100")
        );
        for time in ["1e300", "1e-300"] {
            let text = format!("operation,flops,bytes,time_us\naten::add,1,12,{time}\n");
            assert!(message(&text).contains("microseconds"), "{time}");
        }
    }
}
