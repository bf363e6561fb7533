import os

from conan import ConanFile


class SystemLibrary(ConanFile):
    """A library that the system has, under the name and with the targets of the public recipe."""

    package_type = "header-library"
    includes = {"eigen": ["/usr/include/eigen3"]}
    libraries = {"zlib": ["z"], "openssl": ["crypto"], "ssl": ["ssl"]}
    files = {"eigen": "Eigen3", "zlib": "ZLIB", "openssl": "OpenSSL"}
    targets = {"eigen": "Eigen3::Eigen", "zlib": "ZLIB::ZLIB"}

    def package_info(self):
        name = self.name
        self.cpp_info.set_property("cmake_file_name", self.files.get(name, name))
        info = self.cpp_info
        if name == "openssl":
            info = self.cpp_info.components["crypto"]
            info.set_property("cmake_target_name", "OpenSSL::Crypto")
            ssl = self.cpp_info.components["ssl"]
            ssl.set_property("cmake_target_name", "OpenSSL::SSL")
            ssl.requires = ["crypto"]
            ssl.includedirs = ssl.bindirs = ssl.libdirs = []
            ssl.system_libs = self.libraries["ssl"]
        else:
            self.cpp_info.set_property("cmake_target_name", self.targets.get(name, f"{name}::{name}"))
        info.includedirs = [path for path in self.includes.get(name, []) if os.path.isdir(path)]
        info.bindirs = info.libdirs = []
        info.system_libs = self.libraries.get(name, [])
        if name == "asio":
            info.defines = ["ASIO_STANDALONE"]
