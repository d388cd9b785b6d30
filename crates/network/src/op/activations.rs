//! Element-wise functions, one per row.

use super::effects::Needs;

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
    pub enum Activation: Needs {
        Relu "relu" Needs::Result,
        Relu6 "relu6" Needs::Inputs,
        LeakyRelu "leaky-relu" Needs::Inputs,
        Elu "elu" Needs::Inputs,
        Selu "selu" Needs::Inputs,
        Celu "celu" Needs::Inputs,
        Sigmoid "sigmoid" Needs::Result,
        HardSigmoid "hard-sigmoid" Needs::Inputs,
        Tanh "tanh" Needs::Result,
        Silu "silu" Needs::Inputs,
        HardSwish "hard-swish" Needs::Inputs,
        Gelu "gelu" Needs::Inputs,
        Mish "mish" Needs::Inputs,
        Softplus "softplus" Needs::Inputs,
        Clip "clip" Needs::Inputs,
        Abs "abs" Needs::Inputs,
        Neg "neg" Needs::Nothing,
        Exp "exp" Needs::Result,
        Log "log" Needs::Inputs,
        Sqrt "sqrt" Needs::Result,
        Reciprocal "reciprocal" Needs::Result,
        Erf "erf" Needs::Inputs,
        Sin "sin" Needs::Inputs,
        Cos "cos" Needs::Inputs,
        Sign "sign" Needs::Nothing,
        Floor "floor" Needs::Nothing,
        Ceil "ceil" Needs::Nothing,
        Round "round" Needs::Nothing,
        Not "not" Needs::Nothing,
    }
}

/// Groups of functions of two elements with the same derivative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
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
    pub enum Binary: Family {
        Add "add" Family::Sum,
        Sub "sub" Family::Sum,
        Mul "mul" Family::Product,
        Div "div" Family::Product,
        Pow "pow" Family::Power,
        Max "max" Family::Choice,
        Min "min" Family::Choice,
        Mod "mod" Family::Product,
        Equal "equal" Family::Truth,
        Less "less" Family::Truth,
        LessOrEqual "less-or-equal" Family::Truth,
        Greater "greater" Family::Truth,
        GreaterOrEqual "greater-or-equal" Family::Truth,
        And "and" Family::Truth,
        Or "or" Family::Truth,
        Xor "xor" Family::Truth,
        /// The first where it is positive, else multiplied by the second, the trained slopes.
        PRelu "prelu" Family::Choice,
    }
}
