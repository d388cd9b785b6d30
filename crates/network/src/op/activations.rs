//! Element-wise functions, one per row.

use super::effects::BackwardNeeds;

/// Declares element-wise functions, one per row: the variant, its name in tables, and the source of its facts. The compiler
/// requires the rest of its facts: the operator of ONNX, the worker's function.
macro_rules! elementwise {
    ($(#[$doc:meta])* pub enum $kind:ident: $facts:ty { $($(#[$own:meta])* $function:ident $name:literal $row:expr,)+ }) => {
        perf4sight_base::words! {
            $(#[$doc])*
            pub enum $kind {
                $($(#[$own])* $function = $name,)+
            }
        }

        impl $kind {
            pub(super) fn row(self) -> $facts {
                match self {
                    $($kind::$function => $row,)+
                }
            }
        }
    };
}

/// What autocast on accelerators computes a function in (aten/src/ATen/autocast_mode.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AutocastTo {
    /// Single precision.
    Single,
    /// The widest type of its operands.
    Widest,
}

/// Whether modules write the result of a function over its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overwrites {
    /// As the published networks do (`ReLU(inplace=True)`).
    Usually,
    /// Modules offer it, and PyTorch then reads the gradient off the result (tools/autograd/derivatives.yaml: `leaky_relu_`, `elu_`, `celu_`,
    /// `selu_`).
    Possibly,
    /// Backward needs the input, of which a copy would have to be kept.
    Never,
}

elementwise! {
    /// Functions of one element: what backward needs (the result, if that is enough for PyTorch; tools/autograd/derivatives.yaml), what autocast
    /// computes it in on accelerators, and whether it overwrites its input.
    pub enum Activation: (BackwardNeeds, AutocastTo, Overwrites) {
        Relu "relu" (BackwardNeeds::Result, AutocastTo::Widest, Overwrites::Usually),
        Relu6 "relu6" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Usually),
        LeakyRelu "leaky-relu" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Possibly),
        Elu "elu" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Possibly),
        Selu "selu" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Possibly),
        Celu "celu" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Possibly),
        Sigmoid "sigmoid" (BackwardNeeds::Result, AutocastTo::Widest, Overwrites::Never),
        HardSigmoid "hard-sigmoid" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        Tanh "tanh" (BackwardNeeds::Result, AutocastTo::Widest, Overwrites::Never),
        Silu "silu" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        HardSwish "hard-swish" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        Gelu "gelu" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        Mish "mish" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        Softplus "softplus" (BackwardNeeds::Inputs, AutocastTo::Single, Overwrites::Never),
        Clip "clip" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        Abs "abs" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        Neg "neg" (BackwardNeeds::Nothing, AutocastTo::Widest, Overwrites::Never),
        Exp "exp" (BackwardNeeds::Result, AutocastTo::Single, Overwrites::Never),
        Log "log" (BackwardNeeds::Inputs, AutocastTo::Single, Overwrites::Never),
        Sqrt "sqrt" (BackwardNeeds::Result, AutocastTo::Widest, Overwrites::Never),
        Reciprocal "reciprocal" (BackwardNeeds::Result, AutocastTo::Single, Overwrites::Never),
        Erf "erf" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        Sin "sin" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        Cos "cos" (BackwardNeeds::Inputs, AutocastTo::Widest, Overwrites::Never),
        Sign "sign" (BackwardNeeds::Nothing, AutocastTo::Widest, Overwrites::Never),
        Floor "floor" (BackwardNeeds::Nothing, AutocastTo::Widest, Overwrites::Never),
        Ceil "ceil" (BackwardNeeds::Nothing, AutocastTo::Widest, Overwrites::Never),
        Round "round" (BackwardNeeds::Nothing, AutocastTo::Widest, Overwrites::Never),
        Not "not" (BackwardNeeds::Nothing, AutocastTo::Widest, Overwrites::Never),
    }
}

/// Groups of functions of two elements with the same derivative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BinaryFamily {
    /// The gradient passes unchanged.
    Sum,
    /// The gradient is multiplied by the other operand, which is saved unless it is a constant.
    Product,
    Power,
    /// One operand or the other.
    Choice,
    /// Comparisons and logic, which have no gradient.
    Truth,
}

elementwise! {
    /// Functions of two elements: arithmetic, comparisons, logic.
    pub enum BinaryFunction: BinaryFamily {
        Add "add" BinaryFamily::Sum,
        Sub "sub" BinaryFamily::Sum,
        Mul "mul" BinaryFamily::Product,
        Div "div" BinaryFamily::Product,
        Pow "pow" BinaryFamily::Power,
        Max "max" BinaryFamily::Choice,
        Min "min" BinaryFamily::Choice,
        Mod "mod" BinaryFamily::Product,
        Equal "equal" BinaryFamily::Truth,
        Less "less" BinaryFamily::Truth,
        LessOrEqual "less-or-equal" BinaryFamily::Truth,
        Greater "greater" BinaryFamily::Truth,
        GreaterOrEqual "greater-or-equal" BinaryFamily::Truth,
        And "and" BinaryFamily::Truth,
        Or "or" BinaryFamily::Truth,
        Xor "xor" BinaryFamily::Truth,
        /// The first where it is positive, else multiplied by the second, the trained slopes.
        PRelu "prelu" BinaryFamily::Choice,
    }
}
