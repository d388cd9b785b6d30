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

elementwise! {
    /// Functions of one element. If the result is enough for the gradient, PyTorch uses it (tools/autograd/derivatives.yaml).
    pub enum Activation: BackwardNeeds {
        Relu "relu" BackwardNeeds::Result,
        Relu6 "relu6" BackwardNeeds::Inputs,
        LeakyRelu "leaky-relu" BackwardNeeds::Inputs,
        Elu "elu" BackwardNeeds::Inputs,
        Selu "selu" BackwardNeeds::Inputs,
        Celu "celu" BackwardNeeds::Inputs,
        Sigmoid "sigmoid" BackwardNeeds::Result,
        HardSigmoid "hard-sigmoid" BackwardNeeds::Inputs,
        Tanh "tanh" BackwardNeeds::Result,
        Silu "silu" BackwardNeeds::Inputs,
        HardSwish "hard-swish" BackwardNeeds::Inputs,
        Gelu "gelu" BackwardNeeds::Inputs,
        Mish "mish" BackwardNeeds::Inputs,
        Softplus "softplus" BackwardNeeds::Inputs,
        Clip "clip" BackwardNeeds::Inputs,
        Abs "abs" BackwardNeeds::Inputs,
        Neg "neg" BackwardNeeds::Nothing,
        Exp "exp" BackwardNeeds::Result,
        Log "log" BackwardNeeds::Inputs,
        Sqrt "sqrt" BackwardNeeds::Result,
        Reciprocal "reciprocal" BackwardNeeds::Result,
        Erf "erf" BackwardNeeds::Inputs,
        Sin "sin" BackwardNeeds::Inputs,
        Cos "cos" BackwardNeeds::Inputs,
        Sign "sign" BackwardNeeds::Nothing,
        Floor "floor" BackwardNeeds::Nothing,
        Ceil "ceil" BackwardNeeds::Nothing,
        Round "round" BackwardNeeds::Nothing,
        Not "not" BackwardNeeds::Nothing,
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
