"""The extension by setuptools: python setup.py build_ext --build-lib FOLDER, which run.py calls."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="lltm_cpp",
    ext_modules=[CppExtension("lltm_cpp", ["lltm.cpp"], extra_compile_args=["-O3"])],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
