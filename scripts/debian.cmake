# Runs within `cpack -G DEB`, when all files are installed and before they are packed. Adds what Debian asks of a package: stripped
# binaries, compressed texts, copyright, changelog, overrides of lintian; and finds the packages that it depends on.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(share ${root}/usr/share)
set(doc ${share}/doc/neap)
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(GLOB programs ${root}/usr/bin/*)
file(GLOB_RECURSE plugins ${root}/usr/lib/libneap_openmpi.so ${root}/usr/lib/libneap_mpich.so)
file(GLOB_RECURSE libraries ${root}/usr/lib/*.so.${CPACK_PACKAGE_VERSION})
file(GLOB_RECURSE archives ${root}/usr/lib/*.a)
run(strip --remove-section=.comment --remove-section=.note ${programs})
run(strip --remove-section=.comment --remove-section=.note --strip-unneeded ${libraries} ${plugins})
run(strip --remove-section=.comment --remove-section=.note --strip-debug --enable-deterministic-archives ${archives})

file(READ ${CPACK_RESOURCE_FILE_LICENSE} license)
file(WRITE ${doc}/copyright "${license}\n\
src/onnx/onnx.proto, from which the reader of ONNX files is made: Copyright (c) ONNX Project Contributors, Apache-2.0,\n\
whose text is in /usr/share/common-licenses/Apache-2.0.\n")
file(COPY_FILE ${CPACK_NEAP_CHANGELOG} ${doc}/changelog)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${doc}/changelog.Debian "neap (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium\n\n\
  * Package of this version, made by CPack.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
run(gzip -9nf ${doc}/changelog ${doc}/changelog.Debian ${share}/man/man1/neap.1)
# One package has the command, the libraries, and what programs are built with. Plugins are loaded, no program is linked to them.
file(WRITE ${share}/lintian/overrides/neap "neap: package-name-doesnt-match-sonames\nneap: non-dev-pkg-with-shlib-symlink\n\
neap: sharedobject-in-library-directory-missing-soname *libneap_*\n")

# An MPI is needed only by those who start processes by its mpirun, and CBC only by the planner `checkmate`.
set(work ${CPACK_TEMPORARY_DIRECTORY}/../dependencies)
file(MAKE_DIRECTORY ${work}/debian ${root}/DEBIAN) # by the second dpkg-shlibdeps knows the package's folder
file(WRITE ${work}/debian/control "Source: neap\n\nPackage: neap\nArchitecture: any\n")
list(TRANSFORM programs PREPEND -e)
list(TRANSFORM libraries PREPEND -e)
list(TRANSFORM plugins PREPEND -e)
execute_process(COMMAND dpkg-shlibdeps -O -dDepends ${programs} ${libraries} -dSuggests ${plugins}
  WORKING_DIRECTORY ${work} OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${root}/DEBIAN)
string(REGEX MATCH "shlibs:Depends=([^\n]+)" _ "${found}")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "${CMAKE_MATCH_1}")
set(suggests)
if(found MATCHES "shlibs:Suggests=([^\n]+)")
  list(APPEND suggests "${CMAKE_MATCH_1}")
endif()
if(CPACK_NEAP_CBC)
  execute_process(COMMAND dpkg-query -S ${CPACK_NEAP_CBC} OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE ":.*" "" found "${found}")
  list(APPEND suggests ${found})
endif()
list(JOIN suggests ", " CPACK_DEBIAN_PACKAGE_SUGGESTS)

file(WRITE ${work}/triggers "activate-noawait ldconfig\n")
file(WRITE ${work}/shlibs "libneap ${CPACK_PACKAGE_VERSION_MAJOR} neap\nlibneap_plan ${CPACK_PACKAGE_VERSION_MAJOR} neap\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${work}/triggers ${work}/shlibs)
