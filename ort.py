import onnxruntime as o, numpy as np, sys
s=o.InferenceSession(sys.argv[1]); i=s.get_inputs()[0]
x=np.random.randn(*[d if isinstance(d,int) else 2 for d in i.shape]).astype("float32")
y=s.run(None,{i.name:x})[0]; print("ort ok",y.shape,[j.name for j in s.get_inputs()][:3])
