import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"


class Lockstep(ConanFile):
    name = "lockstep"
    description = "Header-only C++20 templates for synchronous multi-worker training"
    license = "MIT"
    topics = ("machine-learning", "distributed-training", "all-reduce", "header-only")
    settings = "os", "arch", "compiler", "build_type"
    options = {"compiled": [True, False], "with_zlib": [True, False], "with_openssl": [True, False]}
    default_options = {"compiled": True, "with_zlib": True, "with_openssl": True}

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir, os.pardir)

    def set_version(self):
        config = load(self, os.path.join(self._root, "include", "lockstep", "core", "config.hpp"))
        self.version = ".".join(re.findall(r"#define LOCKSTEP_VERSION_[A-Z]+ ([0-9]+)", config))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, src=self._root, dst=self.export_sources_folder)

    def configure(self):
        self.package_type = "static-library" if self.options.compiled else "header-library"

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("eigen/3.4.0", transitive_headers=True)
        self.requires("asio/1.28.2", transitive_headers=True)
        self.requires("nlohmann_json/3.11.3", transitive_headers=True)
        self.requires("cereal/1.3.2", transitive_headers=True)
        if self.options.with_zlib:
            self.requires("zlib/[>=1.2.11 <2]", transitive_headers=True, transitive_libs=True)
        if self.options.with_openssl:
            self.requires("openssl/[>=1.1 <4]", transitive_headers=True, transitive_libs=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        if not self.info.options.compiled:
            self.info.clear()

    def generate(self):
        toolchain = CMakeToolchain(self)
        variables = toolchain.cache_variables
        variables["LOCKSTEP_BUILD_COMPILED"] = bool(self.options.compiled)
        variables["LOCKSTEP_WITH_MPI"] = "OFF"
        variables["CMAKE_DISABLE_FIND_PACKAGE_ZLIB"] = not self.options.with_zlib
        variables["CMAKE_DISABLE_FIND_PACKAGE_OpenSSL"] = not self.options.with_openssl
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        if self.options.compiled:
            cmake = CMake(self)
            cmake.configure()
            cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        if self.options.compiled:
            CMake(self).install()
            rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
            rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))
        else:
            for pattern in ("*.hpp", "*.ipp", "*.cpp"):
                copy(self, pattern, src=os.path.join(self.source_folder, "include"),
                     dst=os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "lockstep")
        headers = self.cpp_info.components["headers"]
        headers.set_property("cmake_target_name", "lockstep::headers")
        headers.set_property("pkg_config_name", "lockstep-headers")
        headers.bindirs = headers.libdirs = []
        headers.system_libs = ["pthread"]
        headers.requires = ["eigen::eigen", "asio::asio", "nlohmann_json::nlohmann_json", "cereal::cereal"]
        if self.options.with_zlib:
            headers.requires.append("zlib::zlib")
            headers.defines.append("LOCKSTEP_HAS_ZLIB=1")
        if self.options.with_openssl:
            headers.requires += ["openssl::ssl", "openssl::crypto"]
            headers.defines.append("LOCKSTEP_HAS_OPENSSL=1")
        if self.options.compiled:
            compiled = self.cpp_info.components["lockstep"]
            compiled.set_property("cmake_target_name", "lockstep::lockstep")
            compiled.set_property("pkg_config_name", "lockstep")
            compiled.requires = ["headers"]
            compiled.libs = ["lockstep"]
            compiled.defines = ["LOCKSTEP_COMPILED=1"]
            compiled.bindirs = []
