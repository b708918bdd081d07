module bad.example/bad

go 1.26
